"""Chrome, Perfetto and folded files."""
