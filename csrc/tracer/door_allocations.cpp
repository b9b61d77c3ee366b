// The LD_PRELOAD door.
