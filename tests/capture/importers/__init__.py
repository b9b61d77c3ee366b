"""Traces of other profilers."""
