"""What a stream supports: characters, width, colours. Everything that is printed passes `visible`."""

from __future__ import annotations

import os
import sys
import textwrap
from contextlib import suppress
from typing import TextIO

LINES = "\n\t"
"""What texts of several lines may contain besides printable characters."""
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
    """The text, with all that could move the cursor, hide text or reverse its direction escaped, except `keeps`."""
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


def wrapped(text: str) -> str:
    """A message in lines of at most 100 columns, or the terminal's width; its own line breaks are kept."""
    width = min(PLAIN_WIDTH, stream_width(sys.stderr))
    return "\n".join(wrapped_line(line, width) for line in visible(text, LINES).splitlines())


def wrapped_line(line: str, width: int) -> str:
    """One line as several, the further ones indented."""
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def tell(text: str) -> None:
    """A remark beside the result, on standard error."""
    say(wrapped(text), sys.stderr)


def abandon_stdout() -> None:
    """Discard all further output, including the interpreter's last flush."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def encodable(text: str, stream: TextIO) -> str:
    """The text with characters that the stream's encoding lacks replaced by ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text
