"""What the studies do to data before a network sees them: pure functions, and the names by which networks ask."""
