"""Results of operators as tables and records."""
