"""A user's own kernel: Python, C, C++ or CUDA."""
