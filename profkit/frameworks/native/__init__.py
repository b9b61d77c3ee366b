"""profkit's own kernels."""
