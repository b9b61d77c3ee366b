"""Data sets, whole and damaged, their preparation, and what stands in for them."""
