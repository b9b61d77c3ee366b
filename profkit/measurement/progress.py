"""Progress reports of a running measurement; rendering decides how to show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One state of the run: a phase, how far it is, and what it is doing."""

    cell: int
    cells: int
    phase: str
    """peaks, start, verify or measure."""
    fraction: float
    """0 to 1 inside this phase."""
    text: str


Watcher = Callable[[Progress], None]
"""Called between measurements, never during a timed call."""
ProgressCallback = Callable[[str, float, str], None]
"""Phase, fraction and text of one cell."""


def ignore_progress(progress: Progress) -> None:
    """The watcher of a caller who does not watch."""


def cell_progress(watcher: Watcher, cell: int, cells: int) -> ProgressCallback:
    """The callback that reports one cell of several to the watcher."""
    return lambda phase, fraction, text: watcher(Progress(cell, cells, phase, fraction, text))
