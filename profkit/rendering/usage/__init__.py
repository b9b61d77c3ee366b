"""Usage of programs, networks and GPUs as tables, files and comparisons."""
