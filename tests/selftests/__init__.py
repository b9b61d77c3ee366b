"""`profkit selftest`: that it passes, and that it finds what is wrong."""
