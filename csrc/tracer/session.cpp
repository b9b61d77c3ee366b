// Start and stop of a capture.
