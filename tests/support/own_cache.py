"""A cache folder of a test: what it keeps stays with it, but the machine's peaks are known there, as measuring them
takes longer than most of what is measured.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profkit.frameworks.cache import cache_folder


def use_own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on `folder` is the cache."""
    folder.mkdir(exist_ok=True)
    if (known := cache_folder() / "peaks.json").exists():
        shutil.copy(known, folder)
    monkeypatch.setenv("PROFKIT_CACHE", str(folder))
