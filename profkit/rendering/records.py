"""A Result as flat records, one per row: the one place where fields of specs, cells and rows meet by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profkit.measurement.result import Cell, Row
from profkit.rendering.columns import row_fields

_OF_THE_CELL = ("threads", "cache", "bound", "baseline")


def flat_record(cell: Cell, row: Row, spec_values: Mapping[str, Any]) -> dict[str, Any]:
    """Operator, spec, cell, peaks and row; a field of the spec that shares a name (layout) gets `spec_` before it."""
    taken = {"op", *_OF_THE_CELL, *row_fields()}
    record: dict[str, Any] = {"op": cell.spec.op}
    record |= {f"spec_{name}" if name in taken else name: value for name, value in spec_values.items() if name != "op"}
    record |= {name: getattr(cell, name) for name in _OF_THE_CELL}
    record["asked_output"] = cell.output  # a row that cannot reuse its output says so in its own
    record |= {f"peak_{name}": value for name, value in cell.peaks.items()}
    return record | {name: getattr(row, name) for name in row_fields()}
