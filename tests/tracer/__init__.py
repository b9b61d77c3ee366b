"""The recorder in other programs, and its declarations against the real headers."""
