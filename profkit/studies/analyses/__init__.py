"""Conclusions about sweeps, a question per file: points of a sweep in, facts out."""
