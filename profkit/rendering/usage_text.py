"""A report for the terminal: a Usage and what stands around it in, lines of text out, never wider than asked."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len, chop_cells

from profkit.attribution.usage import Usage
from profkit.capture.schema import Capture
from profkit.rendering.terminal import PLAIN_WIDTH, stream_width, takes_styles
from profkit.rendering.usage_content import (
    ShownLine,
    ShownTable,
    Surroundings,
    View,
    build_table,
    surroundings,
)

LEAST_NAME_WIDTH = 16
ROOMY = 80
"""From this width on, names keep GOOD_NAME_WIDTH, and columns that do not fit beside it continue below."""
GOOD_NAME_WIDTH = 28
GAP = 2
ELLIPSIS = "…"
# Text and a tone; tones become colours on a terminal.
ToneLine = tuple[str, str]
_COLOURS = {"loss": "\x1b[1;31m", "warning": "\x1b[33m", "title": "\x1b[1m", "note": "\x1b[2m", "more": "\x1b[2m"}
_RESET = "\x1b[0m"


def render_usage(capture: Capture, usage: Usage, view: View, width: int = PLAIN_WIDTH) -> str:
    """The report of a traced program as plain text: losses, warnings, what was recorded, the table, notes."""
    return render_report(surroundings(capture, usage), usage, view, width)


def print_usage(capture: Capture, usage: Usage, view: View, stream: TextIO) -> None:
    """The same to a stream, as wide as it is, in colours where it takes them."""
    print_report(surroundings(capture, usage), usage, view, stream)


def render_report(around: Surroundings, usage: Usage, view: View, width: int = PLAIN_WIDTH) -> str:
    """A table with what stands around it, as plain text."""
    return "\n".join(line for line, _ in _lines(around, usage, view, width)) + "\n"


def print_report(around: Surroundings, usage: Usage, view: View, stream: TextIO) -> None:
    """The same to a stream."""
    print_lines(lambda width: _lines(around, usage, view, width), stream)


def print_lines(lines: Callable[[int], Iterable[ToneLine]], stream: TextIO) -> None:
    """Lines of a width to a stream, as wide as it is, in colours where it takes them."""
    from profkit.rendering.table import encodable

    has_colour = takes_styles(stream)
    for line, tone in lines(stream_width(stream)):
        colour = _COLOURS.get(tone, "") if has_colour and line else ""
        stream.write(encodable(f"{colour}{line}{_RESET if colour else ''}\n", stream))


def cut_middle(text: str, width: int) -> str:
    """The text in at most so many cells; what is too long loses its middle."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    tail = (width - 1) // 2
    head = chop_cells(text, width - 1 - tail)[0] if width - 1 - tail else ""
    # Cells are counted from the left, so the tail is cut from the reversed text.
    end = chop_cells(text[::-1], tail)[0][::-1] if tail else ""
    return f"{head}{ELLIPSIS}{end}"


def _lines(around: Surroundings, usage: Usage, view: View, width: int) -> Iterator[ToneLine]:
    for line in around.losses:
        yield from wrapped(line, width, "loss")
    for line in around.warnings:
        yield from wrapped(line, width, "warning")
    first, *others = around.heads
    yield from wrapped(first, width, "title")
    for line in others:
        yield from wrapped(line, width, "note")
    yield "", ""
    if usage.rows:
        yield from table_lines(build_table(usage, view), width)
    for line in around.instead:
        yield from wrapped(line, width, "row")
    if around.notes:
        yield "", ""
    for note in around.notes:
        yield from wrapped(note, width, "note")


def wrapped(text: str, width: int, tone: str) -> Iterator[ToneLine]:
    """A text in lines of at most so many cells."""
    for line in textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False) or [""]:
        # Words without spaces and wide signs may still be too long for the terminal.
        for part in chop_cells(line, width) if cell_len(line) > width else [line]:
            yield part, tone


def table_lines(table: ShownTable, width: int) -> Iterator[ToneLine]:
    """A table; columns that do not fit continue below."""
    widths = [
        max(cell_len(heading), *(cell_len(line.texts[index]) for line in table.lines))
        for index, heading in enumerate(table.headings)
    ]
    longest = max([len(table.by), *(cell_len(line.name) + 2 * line.level for line in table.lines)])
    kept, hidden = _fitting(table, widths, width - min(longest, GOOD_NAME_WIDTH))
    least = min(longest, GOOD_NAME_WIDTH) if width >= ROOMY else LEAST_NAME_WIDTH
    for number, block in enumerate(_blocks(kept, widths, width - least)):
        if number:
            yield "", ""
        room = max(LEAST_NAME_WIDTH, width - _total(widths, block))
        name_width = min(longest, room)
        yield _line(table.by, [table.headings[i] for i in block], [widths[i] for i in block], name_width), "title"
        rule = name_width + _total(widths, block)
        yield "─" * rule, "note"
        below = next((line for line in table.lines if line.tone in ("remainder", "total")), None)
        for line in table.lines:
            if line is below:
                yield "─" * rule, "note"
            name = _indented(line, name_width)
            yield _line(name, [line.texts[i] for i in block], [widths[i] for i in block], name_width), line.tone
    if hidden:
        yield from wrapped(f"too narrow for {', '.join(hidden)}: use a wider terminal or --columns", width, "note")


def _fitting(table: ShownTable, widths: Sequence[int], room: int) -> tuple[list[int], list[str]]:
    """Columns to show, and headings left out: a default table does without some rather than cut names short."""
    kept = list(range(len(widths)))
    for _, index in sorted((rank, index) for index, rank in enumerate(table.dispensable) if rank):
        if _total(widths, kept) <= room:
            break
        kept.remove(index)
    return kept, [heading for index, heading in enumerate(table.headings) if index not in kept]


def _blocks(kept: Sequence[int], widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns side by side as far as they fit; the rest continues below, names repeated."""
    blocks: list[list[int]] = [[]]
    for index in kept:
        if blocks[-1] and _total(widths, [*blocks[-1], index]) > room:
            blocks.append([])
        blocks[-1].append(index)
    return blocks


def _total(widths: Sequence[int], indices: Sequence[int]) -> int:
    return sum(widths[index] + GAP for index in indices)


def _indented(line: ShownLine, width: int) -> str:
    # However deep the tree, at least half of the width stays for the name.
    indent = min(2 * line.level, width // 2)
    return " " * indent + cut_middle(line.name, width - indent)


def _line(name: str, texts: Sequence[str], widths: Sequence[int], name_width: int) -> str:
    cells = [name + " " * (name_width - cell_len(name))]
    cells += [" " * (width - cell_len(text)) + text for text, width in zip(texts, widths)]
    return (" " * GAP).join(cells).rstrip()
