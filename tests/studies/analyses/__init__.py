"""Analyses of sweeps on invented points."""
