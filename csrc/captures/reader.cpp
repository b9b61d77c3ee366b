// Capture file to columns.
