"""Where profkit keeps what it makes once: measured peaks, environments, compiled modules. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """PROFKIT_CACHE, else the user's cache folder."""
    base = os.environ.get("PROFKIT_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profkit"
