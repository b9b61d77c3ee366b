"""Temporary files of a worker: they go with it, however it ends. Standard library only."""

from __future__ import annotations

import os
import tempfile

SCRATCH_VARIABLE = "PROFKIT_SCRATCH"
"""The parent's folder for its worker, which it removes when the worker has ended."""


def temporary_folder(name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder for one use, in the one that the parent removes; elsewhere where there is no parent."""
    place = os.environ.get(SCRATCH_VARIABLE, "")
    return tempfile.TemporaryDirectory(prefix=f"profkit-{name}-", dir=place if os.path.isdir(place) else None)
