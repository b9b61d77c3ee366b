"""The search for better block sizes and launch configurations."""
