"""How wide a stream is, and whether it takes colours: COLUMNS, NO_COLOR, FORCE_COLOR and the terminal decide."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100
LEAST_WIDTH = 20


def stream_width(stream: TextIO) -> int:
    """COLUMNS if it is set, else the terminal's width, else 100."""
    width = 0
    with suppress(ValueError):
        width = int(os.environ.get("COLUMNS", ""))
    if width <= 0 and stream.isatty():
        with suppress(OSError, ValueError):
            # A terminal that does not know its width says 0.
            width = os.get_terminal_size(stream.fileno()).columns
    return max(LEAST_WIDTH, width) if width > 0 else PLAIN_WIDTH


def takes_styles(stream: TextIO) -> bool:
    """Whether escape sequences for colour, bold and dim may be written; an empty variable counts as unset."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def can_redraw(stream: TextIO) -> bool:
    """Whether a line may be written over."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def plain_console(stream: TextIO, width: int) -> Console:
    """A rich console that writes no escape sequence."""
    from rich.console import Console

    return Console(file=stream, width=width, color_system=None, force_terminal=False, highlight=False)


def styled_console(stream: TextIO) -> Console:
    """A rich console for a stream that takes styles."""
    from rich.console import Console

    # Of itself rich gives a dumb terminal no colours, even where FORCE_COLOR asks for them.
    is_dumb = os.environ.get("TERM") == "dumb"
    return Console(
        file=stream,
        width=stream_width(stream),
        force_terminal=True,
        color_system="standard" if is_dumb else "auto",
        highlight=False,
    )
