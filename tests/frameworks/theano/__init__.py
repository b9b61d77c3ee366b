"""Theano, in an environment of its own."""
