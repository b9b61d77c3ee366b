// Captures for Python: columns as NumPy arrays.
