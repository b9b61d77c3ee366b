"""Adapters; a folder per framework."""
