"""Declared sweeps and their analyses."""
