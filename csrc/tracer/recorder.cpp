// Per-thread recording.
