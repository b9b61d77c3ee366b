"""The native CPU kernels and their binding."""
