"""SQL on captures."""
