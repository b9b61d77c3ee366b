"""A Result as flat records, one per row: the one place where fields of specs, cells and rows meet by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profkit.measurement.result import Cell, Result, Row
from profkit.rendering.results.columns import row_fields
from profkit.rendering.tables.csv_file import render_records

_OF_THE_CELL = ("threads", "cache", "bound", "baseline")
# Lists have no place in a line; their length is what a spreadsheet can use, and the JSON file has them whole.
_LISTS = {"samples_ns": "samples", "warmup_ns": "warmups", "sample_rounds": ""}


def flat_record(cell: Cell, row: Row, spec_values: Mapping[str, Any]) -> dict[str, Any]:
    """Operator, spec, cell, peaks and row; a field of the spec that shares a name (layout) gets `spec_` before it."""
    taken = {"op", *_OF_THE_CELL, *row_fields()}
    record: dict[str, Any] = {"op": cell.spec.op}
    record |= {f"spec_{name}" if name in taken else name: value for name, value in spec_values.items() if name != "op"}
    record |= {name: getattr(cell, name) for name in _OF_THE_CELL}
    record["asked_output"] = cell.output  # a row that cannot reuse its output says so in its own
    record |= {f"peak_{name}": value for name, value in cell.peaks.items()}
    return record | {name: getattr(row, name) for name in row_fields()}


def result_records(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """One record per row of these cells, fields of specs as they are."""
    return [flat_record(cell, row, cell.spec.to_dict()) for cell in cells for row in cell.rows]


def render_csv(result: Result) -> str:
    """One line per implementation and cell, with plain numbers; one that was not measured is an empty field."""
    return render_records(
        [_of_spreadsheet(flat_record(cell, row, cell.spec.words())) for cell in result.cells for row in cell.rows]
    )


def _of_spreadsheet(record: Mapping[str, Any]) -> dict[str, Any]:
    counted = {_LISTS.get(name, name): len(value) if name in _LISTS else value for name, value in record.items()}
    return {
        name: "; ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else value
        for name, value in counted.items()
        if name
    }
