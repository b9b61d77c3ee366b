"""Rows as CSV: plain numbers, an empty field for what was not measured, texts that no spreadsheet computes.

A text that begins like a formula (= + - @) gets an apostrophe before it, unless it is a number; signs that cannot be
seen are escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profkit.rendering.tables.document import Document
from profkit.rendering.terminal import LINES, visible

_FORMULA = re.compile(r"[=+\-@\t\n\r\uff1d\uff0b\uff0d\uff20]")  # and the wide forms, which some take for the same
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)? ?%?")


def render_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A line of names, then one line per row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    write_rows(writer, [names])
    write_rows(writer, rows)
    return stream.getvalue()


def write_rows(writer: Any, rows: Iterable[Sequence[Any]]) -> None:
    """Rows to a writer of the module csv."""
    writer.writerows([_cell(value) if isinstance(value, str) else value for value in row] for row in rows)


def _cell(text: str) -> str:
    shown = visible(text, LINES)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown


def render_records(records: Sequence[Mapping[str, Any]]) -> str:
    """A line per record, a column for each name that any of them has."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return render_csv(names, ([_field(record.get(name)) for name in names] for record in records))


def render_file(document: Document) -> str:
    return render_records(document.to_records())


def _field(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else value
