"""Which rows of a table are shown, and in which order: a Usage, a column to sort by and a limit in, row numbers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from profkit.attribution.usage import NAME, Usage
from profkit.rendering.usage.columns import find_usage_column

Rank = tuple[bool, float, str]


def row_order(usage: Usage, sort: str | None) -> Sequence[int]:
    """Rows by a column, the largest first (names from a to z); what was not recorded comes last."""
    rows = range(len(usage.rows))
    if sort is None:
        return rows
    paths = usage.rows.column("path")
    if sort == NAME:
        names = paths if usage.by == "path" else usage.rows.column("name")
        return sorted(rows, key=names.__getitem__)
    rank = _rank(usage, sort)
    if usage.by != "path":
        return sorted(rows, key=rank)
    # In a tree siblings are ordered, each below its parent.
    keys: dict[tuple[str, ...], tuple[Rank, ...]] = {}
    for row in sorted(rows, key=lambda row: len(paths[row])):
        keys[paths[row]] = (*keys.get(paths[row][:-1], ()), rank(row))
    return sorted(rows, key=lambda row: keys[paths[row]])


def top_rows(usage: Usage, order: Sequence[int], sort: str | None, top: int | None) -> Sequence[int]:
    """The first rows; of a tree, those that come first by the column wherever they stand, with all rows above each."""
    if top is None or len(order) <= top:
        return order
    if usage.by != "path" or sort == NAME:
        return order[:top]
    paths = usage.rows.column("path")
    known = set(paths)
    kept: set[tuple[str, ...]] = set()
    for row in sorted(order, key=_rank(usage, sort or "inclusive")):
        way = [paths[row][:length] for length in range(1, len(paths[row]) + 1)]
        new = [path for path in way if path in known and path not in kept]
        # A row is shown with all rows above it, or not at all.
        if len(kept) + len(new) <= top:
            kept.update(new)
        if len(kept) == top:
            break
    return [row for row in order if paths[row] in kept]


def _rank(usage: Usage, sort: str) -> Callable[[int], Rank]:
    values = find_usage_column(sort).metric.values(usage)
    names = usage.rows.column("name")

    def rank(row: int) -> Rank:
        value = values[row]
        return (value is None, -(value or 0), names[row])

    return rank
