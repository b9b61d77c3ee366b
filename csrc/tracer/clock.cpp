// Chooses the clock and takes sync points.
