"""A study's report: answers, tables, plot, files."""
