"""Specs, their geometry and their references."""
