"""Worker processes: what runs in them, how they are started, queried and ended."""
