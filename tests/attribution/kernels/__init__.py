"""What names of kernels tell."""
