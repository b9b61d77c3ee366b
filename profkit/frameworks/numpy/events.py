"""NumPy's networks: our own clock around every operator."""

from __future__ import annotations

from profkit.frameworks.events.scopes import ScopeSource

SOURCE = ScopeSource("numpy")
