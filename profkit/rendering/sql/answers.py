"""The answer of a query as a Table: names and rows in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profkit.rendering.quantities import ABSENT
from profkit.rendering.tables.table import Column, Line, Table

LEAST_TEXT_WIDTH = 12


def answer_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Texts are shortened in their middle if need be, numbers never; what does not fit then continues below."""
    columns = [
        Column(name, name, is_text=True, least_width=max(LEAST_TEXT_WIDTH, len(name)))
        if _is_text([row[number] for row in rows])
        else Column(name, name)
        for number, name in enumerate(names)
    ]
    return Table(
        columns=columns,
        lines=[Line(tuple(map(_text, row))) for row in rows],
        instead=[f"no rows; columns: {', '.join(names)}"],
        is_dense=False,
        records=lambda: [dict(zip(names, row)) for row in rows],
    )


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _is_text(values: Sequence[Any]) -> bool:
    present = [value for value in values if value is not None]
    return not present or any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in present)
