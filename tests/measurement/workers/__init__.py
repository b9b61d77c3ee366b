"""Worker processes and what is left of them."""
