"""The wall clock of devices."""
