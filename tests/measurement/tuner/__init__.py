"""The tuner, on the CPU and on fake GPUs."""
