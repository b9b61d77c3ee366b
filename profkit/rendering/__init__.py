"""Results in, text and files out: tables, Markdown, CSV, JSON, HTML and the progress bar. Nothing is computed here."""
