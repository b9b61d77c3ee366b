"""A Result as a CSV file: one line per implementation and cell, spec and row fields as columns, plain numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from profkit.measurement.result import Cell, Result, Row
from profkit.rendering.records import flat_record
from profkit.rendering.whole_file import write_whole

# Lists have no place in a line; their length is what a spreadsheet can use, and the JSON file has them whole.
_LISTS = {"samples_ns": "samples", "warmup_ns": "warmups", "sample_rounds": None}


def render_csv(result: Result) -> str:
    """The CSV text; a number that was not measured is an empty field."""
    records = [_record(cell, row) for cell in result.cells for row in cell.rows]
    names = dict.fromkeys(name for record in records for name in record)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue()


def write_csv(result: Result, path: str | Path) -> None:
    """Write the CSV file whole or not at all."""
    write_whole(path, render_csv(result))


def _record(cell: Cell, row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in flat_record(cell, row, cell.spec.words()).items():
        if name in _LISTS:
            if _LISTS[name]:
                record[str(_LISTS[name])] = len(value)
        elif isinstance(value, dict):
            record[name] = "; ".join(f"{key}={item}" for key, item in value.items())
        else:
            record[name] = value
    return record
