// The recorder for Python: finding the library, start and stop.
