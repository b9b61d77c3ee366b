"""Caffe, in a separate environment."""
