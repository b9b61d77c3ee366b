"""Rows as CSV: plain numbers, an empty field for what was not measured."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profkit.rendering.tables.document import Document


def render_csv(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A line of names, then one line per row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return stream.getvalue()


def render_records(records: Sequence[Mapping[str, Any]]) -> str:
    """A line per record, a column for each name that any of them has."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return render_csv(names, ([_field(record.get(name)) for name in names] for record in records))


def render_file(document: Document) -> str:
    """The file as a whole."""
    return render_records(document.to_records())


def _field(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else value
