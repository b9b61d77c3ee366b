"""Progress display: Progress states in, one line on a terminal, in a notebook or in a log out.

Nothing here runs between the calls: a thread that redraws would disturb what is being timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol, TextIO

from profkit.measurement.progress import Progress, Watcher, ignore_progress
from profkit.rendering.terminal import can_redraw, stream_width, takes_styles, visible

QUIET_S = 2.0
"""A run that ends within this shows nothing."""
REDRAW_S = 0.1
PLAIN_LINE_S = 10.0
# Which part of a cell's time a phase usually takes, in order.
_PHASES = {"peaks": 0.05, "start": 0.2, "verify": 0.1, "measure": 0.6, "memory": 0.05}

Clock = Callable[[], float]


def overall_fraction(progress: Progress) -> float:
    """How far the whole run is, 0 to 1."""
    names = list(_PHASES)
    before = names.index(progress.phase) if progress.phase in names else 0
    done = sum(_PHASES[name] for name in names[:before])
    # A phase that is not one of a cell's is all of it.
    done += _PHASES.get(progress.phase, 1.0) * min(1.0, max(0.0, progress.fraction))
    return min(1.0, (progress.cell + done) / max(1, progress.cells))


def progress_text(progress: Progress) -> str:
    cell = f"{progress.cell + 1}/{progress.cells} " if progress.cells > 1 else ""
    return f"{cell}{progress.phase}: {progress.text}" if progress.text else f"{cell}{progress.phase}"


class Display(Protocol):
    redraw_s: float

    def show(self, fraction: float, text: str) -> None: ...

    def close(self) -> None: ...


class ProgressWatcher:
    """A Watcher that draws at most as often as its display likes, and not at all in the first seconds."""

    def __init__(self, display: Display, clock: Clock = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._start_s = clock()
        self._drawn_s: float | None = None
        self._furthest = 0.0

    def __call__(self, progress: Progress) -> None:
        now = self._clock()
        if now - self._start_s < QUIET_S:
            return
        if self._drawn_s is not None and now - self._drawn_s < self._display.redraw_s:
            return
        # Phases overlap (workers start while others are verified); a bar that goes back would only confuse.
        self._furthest = max(self._furthest, overall_fraction(progress))
        self._drawn_s = now
        self._display.show(self._furthest, visible(progress_text(progress)))


class TerminalDisplay:
    """A rich progress bar, redrawn only on request, removed when closed."""

    redraw_s = REDRAW_S

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(
                file=stream, width=stream_width(stream), color_system="auto" if takes_styles(stream) else None
            ),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task("", total=1.0)

    def show(self, fraction: float, text: str) -> None:
        self._bar.start()
        self._bar.update(self._task, completed=fraction, description=text, refresh=True)

    def close(self) -> None:
        self._bar.stop()


class PlainDisplay:
    """A line now and then, for logs."""

    redraw_s = PLAIN_LINE_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, fraction: float, text: str) -> None:
        self._stream.write(f"{100 * fraction:3.0f}% {text}\n")
        self._stream.flush()

    def close(self) -> None:
        pass


class NotebookDisplay:
    """An HTML progress element that is updated in place; needs IPython only, no widgets."""

    redraw_s = 0.5

    def __init__(self, display: Callable[..., Any], html: Callable[[str], Any]) -> None:
        self._display = display
        self._html = html
        self._handle: Any = None

    def show(self, fraction: float, text: str) -> None:
        bar = self._html(f'<progress value="{fraction:.3f}" max="1"></progress> {escape(text)}')
        if self._handle is None:
            self._handle = self._display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update(self._html(""))


@contextmanager
def show_progress(stream: TextIO | None = None, is_quiet: bool = False) -> Iterator[Watcher]:
    """The watcher that fits where this process runs (notebook, terminal, log)."""
    if is_quiet:
        yield ignore_progress
        return
    stream = sys.stderr if stream is None else stream
    display: Display = _notebook_display() or (TerminalDisplay(stream) if can_redraw(stream) else PlainDisplay(stream))
    try:
        yield ProgressWatcher(display)
    finally:
        display.close()


def _notebook_display() -> NotebookDisplay | None:
    """A display when this process is a notebook's kernel; IPython is looked at only if it is already there."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

    return NotebookDisplay(display, HTML)
