"""The answer of a query for the terminal: names and rows in, lines that fit the width out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from profkit.rendering.quantities import ABSENT

GAP = "  "
LEAST_TEXT_WIDTH = 12
MOST_TEXT_WIDTH = 60


def fitted_table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> str:
    """Columns side by side. Texts are shortened in their middle if need be, numbers never; what does not fit then
    continues below, each part beginning with the first column."""
    cells = [[_text(value) for value in row] for row in rows]
    is_number = [_is_number_column([row[i] for row in rows]) for i in range(len(names))]
    widths = [max([cell_len(name), *(cell_len(line[i]) for line in cells)]) for i, name in enumerate(names)]
    widths = _shrunk(names, widths, is_number, width)
    lines: list[str] = []
    for block in _blocks(widths, width):
        lines += [""] if lines else []
        for line in [list(names), ["─" * widths[i] for i in range(len(names))], *cells]:
            parts = [_padded(line[i], widths[i], is_number[i]) for i in block]
            lines.append(GAP.join(parts).rstrip())
    return "\n".join(lines)


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    # A line break within a name must not break the table.
    return "".join(sign if sign.isprintable() else "�" for sign in str(value).replace("\n", " "))


def _is_number_column(values: Sequence[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present)


def _shrunk(names: Sequence[str], widths: list[int], is_number: Sequence[bool], width: int) -> list[int]:
    """Widths with the widest text columns cut until the line fits or nothing is left to cut."""
    least = [
        full if number else min(full, max(LEAST_TEXT_WIDTH, cell_len(name)))
        for name, full, number in zip(names, widths, is_number)
    ]
    shrunk = [
        full if number else min(full, max(low, MOST_TEXT_WIDTH)) for full, low, number in zip(widths, least, is_number)
    ]
    excess = sum(shrunk) + len(GAP) * (len(shrunk) - 1) - width
    while excess > 0:
        room = [wide - low for wide, low in zip(shrunk, least)]
        if not any(room):
            break
        widest = max((i for i in range(len(shrunk)) if room[i]), key=lambda i: shrunk[i])
        shrunk[widest] -= 1
        excess -= 1
    return shrunk


def _blocks(widths: Sequence[int], width: int) -> list[list[int]]:
    blocks: list[list[int]] = [[0]]
    used = widths[0] if widths else 0
    for i in range(1, len(widths)):
        if len(blocks[-1]) > 1 and used + len(GAP) + widths[i] > width:
            blocks.append([0])
            used = widths[0]
        blocks[-1].append(i)
        used += len(GAP) + widths[i]
    return blocks


def _padded(text: str, width: int, is_number: bool) -> str:
    if cell_len(text) > width:
        left = (width - 1) // 2
        right = width - 1 - left
        tail = text[-right:] if right else ""
        while cell_len(tail) > right:
            tail = tail[1:]
        text = set_cell_size(text, left) + "…" + tail
    padding = " " * (width - cell_len(text))
    return padding + text if is_number else text + padding
