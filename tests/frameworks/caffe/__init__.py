"""Caffe, in an environment of its own."""
