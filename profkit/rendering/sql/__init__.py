"""Captures and results as SQL tables."""
