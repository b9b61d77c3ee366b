"""From samples to numbers with intervals, and from numbers to verdicts. It starts no process."""
