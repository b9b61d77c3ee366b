"""Worker processes: what runs in them, how they are started, asked and ended."""
