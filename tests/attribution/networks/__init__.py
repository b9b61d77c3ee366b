"""The wall clock of a network's steps."""
