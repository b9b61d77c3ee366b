"""The head of every page in docs/measured: what was run, when, at which commit, on which machine."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TypedDict

from profkit import _core
from profkit.frameworks.machine import cpu_model

ROOT = Path(__file__).parents[1]


class Origin(TypedDict):
    """Where numbers come from."""

    date: str
    commit: str
    machine: str


def origin() -> Origin:
    """Today, the commit of this checkout and this machine; dirty: the measured code differs from the commit."""
    commit = _git("rev-parse", "--short=7", "HEAD") or "unknown"
    # Not docs/: the page that is being written lies there.
    is_dirty = bool(
        _git("status", "--porcelain", "--untracked-files=no", "--", "CMakeLists.txt", "bench", "csrc", "profkit")
    )
    machine = f"{cpu_model()}, {_core.cpu_features()['simd_active']}, {os.cpu_count()} cores"
    return {"date": time.strftime("%Y-%m-%d"), "commit": commit + "-dirty" * is_dirty, "machine": machine}


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def page_head(title: str, command: str, measured: Origin | None = None) -> str:
    """The title and the line below it; `measured` is the origin of results that were kept in a file."""
    found = measured or origin()
    return f"# {title}\n\nMeasured {found['date']}, commit {found['commit']}, on {found['machine']}: `{command}`\n"
