"""The Table and its writers."""
