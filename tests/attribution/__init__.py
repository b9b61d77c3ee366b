"""Captures in, Usage out."""
