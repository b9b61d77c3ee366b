"""What people type: words in, text, files and exit codes out."""
