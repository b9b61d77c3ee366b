"""Programs of bench/, which lies on the path, and the pages that they printed."""
