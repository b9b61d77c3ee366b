"""Blocks for the terminal: lines of at most the given width, with optional colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells

from profkit.rendering.names import cut_middle, fitted_names
from profkit.rendering.tables.document import Bullets, Code, Document, Heading, Paragraph
from profkit.rendering.tables.table import Item, Items, Table, TableColumn, visible_blocks

GOOD_NAME_WIDTH = 28
LEAST_NAME_WIDTH = 18
ROOMY = 80
"""From this width on, the names of a table that is not dense keep GOOD_NAME_WIDTH, even if columns continue below."""
ITEM_NAME_WIDTH = 30
LEAST_FOLDED_WIDTH = 10
NO_BREAK = "\u00a0"
INDENT = "    "
REASON_LINES = 3
LIST_LINES = 8
CANDIDATE_REASON_LINES = 12
"""A candidate's reason may be its compiler's output, which its author needs."""

DIM = "dim"
_STYLES = {
    DIM: "2", "title": "1", "loss": "1;31", "warning": "33", "interrupted": "1;33", "more": "2",
    "baseline": "1", "faster": "32", "slower": "31", "not resolved": "33", "doubtful": "1;31",
    "lives on repeated inputs": "1;31", "lives on repeated calls": "1;31", "faster than the machine": "1;31",
    "available": "32", "works": "32", "proven": "32", "not proven": "33", "note": "33", "timeout": "33", "oom": "33",
    "wrong": "1;31", "broken": "1;31", "crashed": "1;31", "lost": "1;31", "not compiled": "1;31", "not loaded": "1;31",
}  # fmt: skip
TextLine = Sequence[tuple[str, str]]
"""Texts side by side, each with its tone."""


def render_text(blocks: Sequence[Document], width: int, is_styled: bool = False) -> str:
    """All blocks with a blank line between them."""
    parts = [_lines(block, width) for block in visible_blocks(blocks)]
    return "\n".join(_written(line, is_styled) for line in _separated(parts))


def render_file(document: Document) -> str:
    return f"{document.text()}\n"


def _written(line: TextLine, is_styled: bool) -> str:
    if not is_styled:
        return "".join(text for text, _ in line).rstrip()
    styles = [_STYLES.get(tone) if text.strip() else None for text, tone in line]
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for style, (text, _) in zip(styles, line))


def _separated(parts: Sequence[Iterator[TextLine]]) -> Iterator[TextLine]:
    is_first = True
    for part in parts:
        for number, line in enumerate(part):
            if not number and not is_first:
                yield ()
            is_first = False
            yield line


def _lines(block: Document, width: int) -> Iterator[TextLine]:
    if isinstance(block, Table):
        items = _items(block.items, width, REASON_LINES)
        yield from _separated([_head(block, width), _body(block, width), items, _notes(block, width)])
    elif isinstance(block, Items):
        yield from _items(block.items, width, LIST_LINES)
    elif isinstance(block, Heading):
        yield from _wrapped(block.content, width, "title")
    elif isinstance(block, Paragraph):
        yield from _wrapped(block.content, width, block.tone)
    elif isinstance(block, Bullets):
        for item in block.items:
            yield from _wrapped(f"- {item}", width, "", "  ")
    elif isinstance(block, Code):
        yield from (((line, ""),) for line in block.content.rstrip().splitlines())


def _wrapped(text: str, width: int, tone: str, indent: str = INDENT) -> Iterator[TextLine]:
    for line in _folded(text, width, indent):
        yield ((line.replace(NO_BREAK, " "), tone),)


def _folded(text: str, width: int, indent: str = "") -> Iterator[str]:
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]:
        # Wide signs may still take more cells than the terminal has.
        yield from chop_cells(line, width) if cell_len(line) > width else [line]


def _head(table: Table, width: int) -> Iterator[TextLine]:
    titles = [table.title] if table.title else []
    toned = [(table.losses, "loss"), (table.warnings, "warning"), (titles, "title"), (table.facts, DIM)]
    for texts, tone in toned:
        for text in texts:
            yield from _wrapped(text, width, tone)


def _notes(table: Table, width: int) -> Iterator[TextLine]:
    for note in table.notes:
        yield from _wrapped(note, width, DIM)
    if table.footnotes:
        # Keep the letter of a note with its first word.
        together = "  ".join(note.replace(" ", NO_BREAK, 1) for note in table.footnotes)
        yield from _wrapped(together, width, DIM)


def _body(table: Table, width: int) -> Iterator[TextLine]:
    """The lines in blocks that fit the width; requested columns continue below, others may be omitted."""
    if not table.lines:
        for text in table.instead:
            yield from _wrapped(text, width, "")
        return
    names = [line.name for line in table.lines]
    longest = max([cell_len(table.columns[0].heading), *(cell_len(line.name) + 2 * line.level for line in table.lines)])
    widths = [
        max([cell_len(column.heading), *(cell_len(line.texts[i]) for line in table.lines)])
        for i, column in enumerate(table.columns)
    ]
    gap = 1 if table.is_dense else 2
    # Names of a dense table may be cut shorter, but never to the same text.
    short = _distinct_cuts(names, min(longest, width)) if table.is_dense else range(GOOD_NAME_WIDTH, longest)
    cuts = [*short, longest]
    _shrink(widths, table.columns, width - cuts[0] - gap * (len(widths) - 1))
    kept, hidden = _kept(table.columns, widths, width - cuts[0], gap)
    least = cuts[0] if table.is_dense or width >= ROOMY else min(LEAST_NAME_WIDTH, longest)
    widths[0] = longest
    blocks = _blocks(kept, widths, width - least, gap)
    yield from _separated([_block(table, block, widths, width, cuts) for block in blocks])
    if hidden:
        yield from _wrapped(f"too narrow for {', '.join(hidden)}: use a wider terminal or --columns", width, DIM)


def _shrink(widths: list[int], columns: Sequence[TableColumn], room: int) -> None:
    """Cut the widest texts beside the names that may be cut, until all fit or nothing is left to cut."""
    while sum(widths[1:]) > room:
        able = [i for i, column in enumerate(columns) if i and 0 < column.least_width < widths[i]]
        if not able:
            break
        widest = max(able, key=widths.__getitem__)
        widths[widest] = max(columns[widest].least_width, min(widths[widest] - 1, room))


def _distinct_cuts(names: Sequence[str], end: int) -> list[int]:
    different = set(names)
    cuts = range(LEAST_NAME_WIDTH, end)
    return [cut for cut in cuts if len({cut_middle(name, cut) for name in different}) == len(different)]


def _total(widths: Sequence[int], columns: Sequence[int], gap: int) -> int:
    """Of columns beside the names."""
    return sum(widths[index] + gap for index in columns)


def _kept(columns: Sequence[TableColumn], widths: Sequence[int], room: int, gap: int) -> tuple[list[int], list[str]]:
    """Columns beside the names that are shown, and headings of those left out."""
    kept = list(range(1, len(columns)))
    for _, index in sorted((column.dispensable, i) for i, column in enumerate(columns) if column.dispensable):
        if _total(widths, kept, gap) <= room:
            break
        kept.remove(index)
    return kept, [column.heading for i, column in enumerate(columns) if i and i not in kept]


def _blocks(kept: Sequence[int], widths: Sequence[int], room: int, gap: int) -> list[list[int]]:
    """Columns side by side as far as they fit; names are repeated in each block."""
    blocks: list[list[int]] = [[]]
    for index in kept:
        if blocks[-1] and _total(widths, [*blocks[-1], index], gap) > room:
            blocks.append([])
        blocks[-1].append(index)
    return blocks


def _block(
    table: Table, block: Sequence[int], widths: Sequence[int], width: int, cuts: Sequence[int]
) -> Iterator[TextLine]:
    gap = 1 if table.is_dense and widths[0] + _total(widths, block, 2) > width else 2
    room = width - _total(widths, block, gap)
    name_width = max((cut for cut in cuts if cut <= room), default=min(max(room, LEAST_NAME_WIDTH), widths[0]))
    widths = [name_width, *widths[1:]]
    excess = name_width + _total(widths, block, gap) - width
    texts = [index for index in block if table.columns[index].is_text]
    if excess > 0 and texts:
        # Only a text that alone is wider than the terminal is folded; numbers never are.
        widest = max(texts, key=widths.__getitem__)
        widths[widest] = max(LEAST_FOLDED_WIDTH, widths[widest] - excess)
    columns = [0, *block]
    yield from _row(table, [column.heading for column in table.columns], columns, widths, gap, "title")
    rule = (("─" * (name_width + _total(widths, block, gap)), DIM),)
    yield rule
    for line in table.lines:
        if line.has_rule:
            yield rule
        # However deep the tree, at least half of the width stays for the name.
        indent = min(2 * line.level, name_width // 2)
        name = " " * indent + cut_middle(line.name, name_width - indent)
        yield from _row(table, [name, *line.texts[1:]], columns, widths, gap, line.tone)


def _row(
    table: Table, texts: Sequence[str], columns: Sequence[int], widths: Sequence[int], gap: int, tone: str
) -> Iterator[TextLine]:
    cells = [_cell(texts[i], widths[i], table.columns[i]) for i in columns]
    for number in range(max(map(len, cells))):
        parts = []
        for index, cell in zip(columns, cells):
            text = cell[number] if number < len(cell) else ""
            padding = " " * (widths[index] - cell_len(text))
            parts.append(text + padding if table.columns[index].is_text else padding + text)
        yield (((" " * gap).join(parts).rstrip(), tone),)


def _cell(text: str, width: int, column: TableColumn) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    return [cut_middle(text, width)] if column.least_width else list(_folded(text, width))


def _items(items: Sequence[Item], width: int, limit: int) -> Iterator[TextLine]:
    names = fitted_names([item.name for item in items], ITEM_NAME_WIDTH)
    name_width = max((cell_len(name) for name in names), default=0)
    status_width = max((len(item.status) for item in items), default=0)
    room = max(20, width - name_width - status_width - 4)
    for number, (name, item) in enumerate(zip(names, items)):
        lines = _reason_lines(item, room, limit)
        # A dozen kernels without a driver need its words once.
        if len(lines) > 1 and number and (items[number - 1].status, items[number - 1].text) == (item.status, item.text):
            lines = ["as above"]
        for index, line in enumerate(lines):
            status = f"{'' if index else item.status:{status_width}}"
            padded = "" if index else name
            padded += " " * (name_width - cell_len(padded))
            tone = item.status if item.status in _STYLES else DIM
            yield (f"{padded}  ", ""), (status, tone), (f"  {line}", DIM)


def _reason_lines(item: Item, width: int, limit: int) -> list[str]:
    limit = CANDIDATE_REASON_LINES if item.name.startswith("candidate") else limit
    shown = item.text[: (limit + 1) * (width + 1)]  # no more fits into so many lines
    lines = [part for line in shown.splitlines() for part in _folded(line, width)] or [""]
    if len(lines) > limit:
        lines = [*lines[: limit - 1], textwrap.shorten(lines[limit - 1], width - 2, placeholder="") + " …"]
    return lines
