"""Tables for the terminal: a Result in, rich tables or plain text out, never wider than asked."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from profkit.measurement.result import Result
from profkit.rendering.content import NAME_WIDTH, Heading, Line, Missing, Table, build_tables
from profkit.rendering.names import fitted_names
from profkit.rendering.terminal import PLAIN_WIDTH, plain_console, stream_width, styled_console, takes_styles

LEAST_NAME_WIDTH = 18
NO_BREAK = "\u00a0"
REASON_LINES = 3
LIST_LINES = 8
CANDIDATE_REASON_LINES = 12
"""A candidate's reason may be its compiler's own words, which its author needs."""

_TONES = {
    "baseline": "bold",
    "faster": "green",
    "slower": "red",
    "not resolved": "yellow",
    "not proven": "yellow",
    "wrong": "bold red",
}
_STATUSES = {
    "available": "green",
    "works": "green",
    "proven": "green",
    "not proven": "yellow",
    "broken": "bold red",
    "note": "yellow",
    "wrong": "bold red",
    "crashed": "bold red",
    "lost": "bold red",
    "timeout": "yellow",
    "oom": "yellow",
}
_ASCII = str.maketrans({"µ": "u", "±": "~", "…": "~", "─": "-", "\u2013": "-", "✓": "+", "✗": "x", "→": "->"})


def render_text(
    result: Result, width: int = PLAIN_WIDTH, columns: Sequence[str] | None = None, is_verbose: bool = False
) -> str:
    """The tables as plain text."""
    stream = io.StringIO()
    _print_tables(plain_console(stream, width), result, columns, is_verbose)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n")


def print_result(
    result: Result, stream: TextIO, columns: Sequence[str] | None = None, is_verbose: bool = False
) -> None:
    """The tables to a stream, as wide as it is, in colours where it takes them."""
    if takes_styles(stream):
        _print_tables(styled_console(stream), result, columns, is_verbose)
    else:
        stream.write(encodable(render_text(result, stream_width(stream), columns, is_verbose), stream) + "\n")


def table_text(table: Table, width: int = PLAIN_WIDTH) -> str:
    """One table as plain text."""
    stream = io.StringIO()
    _print_table(plain_console(stream, width), table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n")


def print_table(table: Table, stream: TextIO) -> None:
    """One table to a stream, as wide as it is, in colours where it takes them."""
    if takes_styles(stream):
        _print_table(styled_console(stream), table)
    else:
        stream.write(encodable(table_text(table, stream_width(stream)), stream) + "\n")


def print_list(items: Sequence[Missing], stream: TextIO) -> None:
    """Names, a status and a text each, as the lines under a table."""
    if takes_styles(stream):
        _print_missing(styled_console(stream), items, LIST_LINES)
        return
    plain = io.StringIO()
    _print_missing(plain_console(plain, stream_width(stream)), items, LIST_LINES)
    stream.write(encodable(plain.getvalue(), stream))


def encodable(text: str, stream: TextIO) -> str:
    """The text with signs that the stream's encoding lacks written in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def _print_tables(console: Console, result: Result, columns: Sequence[str] | None, is_verbose: bool) -> None:
    for index, table in enumerate(build_tables(result, columns, is_verbose)):
        if index:
            console.print()
        _print_table(console, table)
    if result.interrupted:
        console.print(Text("interrupted: this is what was measured until then", style="bold yellow"))


def _print_table(console: Console, table: Table) -> None:
    width = console.width
    _print_wrapped(console, table.title, "bold")
    for fact in table.facts:
        _print_wrapped(console, fact, "dim")
    blocks, hidden = fit_columns(table, width)
    for block in blocks if table.lines else []:
        console.print()
        console.print(_rich_table(block, width))
    if table.missing:
        console.print()
        _print_missing(console, table.missing, REASON_LINES)
    footer = [*table.footer, *(["  ".join(map(_unbroken, table.notes))] if table.notes else [])]
    if footer:
        console.print()
        for text in footer:
            _print_wrapped(console, text, "dim", "  ")
    if hidden:
        names = ", ".join(hidden)
        _print_wrapped(console, f"too narrow for {names}: use a wider terminal or --columns", "dim", "  ")


def _print_wrapped(console: Console, text: str, style: str, indent: str = "    ") -> None:
    for paragraph in text.splitlines():
        for line in textwrap.wrap(paragraph, console.width, subsequent_indent=indent, break_on_hyphens=False) or [""]:
            unstyled = line.replace(NO_BREAK, " ")
            console.print(Text(unstyled, style=style), no_wrap=True, overflow="ignore", crop=False)


def _unbroken(note: str) -> str:
    """A note whose letter does not stand alone at the end of a line."""
    return note.replace(" ", NO_BREAK, 1)


def fit_columns(table: Table, width: int) -> tuple[list[Table], list[str]]:
    """The table in blocks that fit the width, and headings that were left out.

    A default table drops what it can do without; a table whose columns were asked for continues below instead.
    """
    kept = list(range(len(table.headings)))
    removable = sorted((h.dispensable, i) for i, h in enumerate(table.headings) if h.dispensable)
    while True:
        # Names are cut before a column goes; when one has to, they have its room.
        for name_width in range(table.name_width, LEAST_NAME_WIDTH - 1, -1):
            names = fitted_names([line.texts[0] for line in table.lines], name_width)
            lines = [Line((name, *line.texts[1:]), line.tone) for name, line in zip(names, table.lines)]
            widths = _widths(table.headings, lines)
            if _total(widths, kept) <= width:
                break
        if not removable or _total(widths, kept) <= width:
            break
        kept.remove(removable.pop(0)[1])
    hidden = [heading.text for index, heading in enumerate(table.headings) if index not in kept]
    return [_part(table, lines, block) for block in _blocks(kept, widths, width)], hidden


def _widths(headings: Sequence[Heading], lines: Sequence[Line]) -> list[int]:
    return [max([cell_len(h.text), *(cell_len(line.texts[i]) for line in lines)]) for i, h in enumerate(headings)]


def _total(widths: Sequence[int], kept: Sequence[int], gap: int = 1) -> int:
    return sum(widths[index] for index in kept) + gap * (len(kept) - 1)


def _blocks(kept: Sequence[int], widths: Sequence[int], width: int) -> list[list[int]]:
    """Column numbers per block; each begins with the implementation."""
    blocks = [[kept[0]]]
    for index in kept[1:]:
        if len(blocks[-1]) > 1 and _total(widths, [*blocks[-1], index]) > width:
            blocks.append([kept[0]])
        blocks[-1].append(index)
    return blocks


def _part(table: Table, lines: Sequence[Line], block: Sequence[int]) -> Table:
    return Table(
        table.title,
        table.facts,
        tuple(table.headings[index] for index in block),
        tuple(Line(tuple(line.texts[index] for index in block), line.tone) for line in lines),
    )


def _rich_table(table: Table, width: int) -> RichTable:
    roomy = _total(_widths(table.headings, table.lines), range(len(table.headings)), 2) <= width
    rich = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if roomy else 0, 0, 0))
    for heading in table.headings:
        # Only a text column that alone is wider than the terminal may fold; numbers never do.
        justify: JustifyMethod = "left" if heading.is_text else "right"
        rich.add_column(Text(heading.text), justify=justify, overflow="fold", no_wrap=not heading.is_text)
    for line in table.lines:
        rich.add_row(*map(Text, line.texts), style=_TONES.get(line.tone, ""))
    return rich


def _print_missing(console: Console, missing: Sequence[Missing], limit: int) -> None:
    names = fitted_names([item.name for item in missing], NAME_WIDTH)
    name_width = max((cell_len(name) for name in names), default=0)
    status_width = max((len(item.status) for item in missing), default=0)
    room = max(20, console.width - name_width - status_width - 4)
    for number, (name, item) in enumerate(zip(names, missing)):
        before = missing[number - 1] if number else None
        lines = _reason_lines(item, room, limit)
        # A dozen kernels without a driver need its words once.
        if len(lines) > 1 and before is not None and (before.status, before.reason) == (item.status, item.reason):
            lines = ["as above"]
        for index, line in enumerate(lines):
            text = Text(f"{name if not index else '':{name_width}}  ")
            text.append(f"{item.status if not index else '':{status_width}}", _STATUSES.get(item.status, "dim"))
            text.append(f"  {line}", "dim")
            text.rstrip()
            console.print(text, no_wrap=True, overflow="ignore", crop=False)


def _reason_lines(item: Missing, width: int, limit: int) -> list[str]:
    limit = CANDIDATE_REASON_LINES if item.name.startswith("candidate") else limit
    wrapped = (textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in item.reason.splitlines())
    lines = [part for parts in wrapped for part in parts] or [""]
    if len(lines) > limit:
        lines = [*lines[: limit - 1], textwrap.shorten(lines[limit - 1], width - 2, placeholder="") + " …"]
    return lines
