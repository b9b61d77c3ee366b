"""Buffers, writer and file, whatever the program does."""
