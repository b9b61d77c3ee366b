"""Sampling, statistics, peaks, selection."""
