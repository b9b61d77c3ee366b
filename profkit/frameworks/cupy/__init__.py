"""CuPy."""
