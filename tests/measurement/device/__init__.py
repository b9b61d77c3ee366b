"""Rows on a GPU, on fake ones."""
