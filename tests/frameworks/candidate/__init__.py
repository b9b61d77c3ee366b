"""Kernels that users bring."""
