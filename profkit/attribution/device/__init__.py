"""The wall clock of GPUs divided among ranges, kernels, copies and reasons of idle time."""
