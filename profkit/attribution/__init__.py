"""Attribution: whose time and whose bytes. Pure functions from a capture's columns to usage per range."""
