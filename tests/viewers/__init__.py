"""The viewers of exported traces, run by node."""
