"""Selftests: what this build does on this machine, compared with what it must do."""
