"""Networks as chains of operators."""
