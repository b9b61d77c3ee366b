"""Keras 3 over its three backends."""
