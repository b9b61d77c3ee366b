"""What a stream takes: which signs, how wide a line, which colours. Everything that is printed passes `visible`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

LINES = "\n\t"
"""What texts of several lines may hold beside printable signs."""
PLAIN_WIDTH = 100
LEAST_WIDTH = 20
_ASCII = str.maketrans({"µ": "u", "±": "~", "…": "~", "─": "-", "\u2013": "-", "✓": "+", "✗": "x", "→": "->"})


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


def visible(text: str, keeps: str = "") -> str:
    """The text with everything escaped that could move the cursor, hide, or turn text around, but for `keeps`."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keeps else sign.encode("unicode_escape").decode() for sign in text
    )


def say(text: str = "", stream: TextIO | None = None) -> None:
    """Print lines of plain text, at once."""
    out = sys.stdout if stream is None else stream
    out.write(encodable(visible(text, LINES), out) + "\n")
    out.flush()


def encodable(text: str, stream: TextIO) -> str:
    """The text with signs that the stream's encoding lacks written in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
