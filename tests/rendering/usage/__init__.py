"""Reports of captures."""
