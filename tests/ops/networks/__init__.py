"""Networks as graphs of operators."""
