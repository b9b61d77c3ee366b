"""CuPy, with NumPy in its place."""
