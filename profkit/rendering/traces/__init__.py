"""Captures as Chrome JSON, Perfetto and folded stacks."""
