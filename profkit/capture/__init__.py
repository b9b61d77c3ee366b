"""Capture: what really happened. Scopes and sessions record it; readers turn a capture file into columns."""
