"""Theano, in a separate environment."""
