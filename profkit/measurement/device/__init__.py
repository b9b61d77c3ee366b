"""Times, clocks and peaks of GPUs."""
