"""The rows of a Usage for programs: JSON in the schema profkit.usage/1, CSV, records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from profkit.attribution.usage import SCHEMA, Usage, UsageRow
from profkit.rendering.tables.csv_file import render_csv
from profkit.rendering.tables.json_file import render_json

# Fields that only one kind of table has.
_ONLY_BY = {"path": "path", "wall_ns": "thread"}
_OF_NETWORKS = (
    "kind", "layer", "phase", "type", "pool_cpu_ns", "requested_bytes", "temporary_bytes", "flops", "moved_bytes",
)  # fmt: skip
_ALWAYS = (*_OF_NETWORKS, "peak_bytes")
_OF_NETWORKS_IN_ALL = ("steps", "remainders", "subject", "notes")
_OF_DEVICES = (
    "short", "launches", "device_ns", "device_inclusive_ns", "kernel_ns", "auxiliary_ns", "copy_ns", "queue_ns",
    "dispatch_ns", "call_ns", "sync_ns", "host_ns", "host_inclusive_ns", "copy_bytes",
)  # fmt: skip
_OF_DEVICES_IN_ALL = ("devices", "device_ns", "parts")
_TEXTS = ("name", "path", "short", "kind", "layer", "phase", "type")


def _head(usage: Usage) -> dict[str, Any]:
    """All but the rows, as JSON values; sum(exclusive_ns) + remainder_ns == wall_ns exactly."""
    left_out = {"rows", "marks", *_OF_NETWORKS_IN_ALL, *_OF_DEVICES_IN_ALL}
    if usage.steps is not None:
        left_out -= set(_OF_NETWORKS_IN_ALL)
    if usage.devices is not None:
        left_out -= {*_OF_NETWORKS_IN_ALL, *_OF_DEVICES_IN_ALL} - {"steps"}
    content = {item.name: getattr(usage, item.name) for item in fields(Usage) if item.name not in left_out}
    content["marks"] = [{"name": mark.name, "count": mark.count} for mark in usage.marks]
    if usage.steps is not None:
        content["remainders"] = {part.name: part.time_ns for part in usage.remainders}
    if usage.devices is not None:
        content["remainders"] = {part.name: {**asdict(part), "name": part.name} for part in usage.remainders}
    return {"schema": SCHEMA, **content}


def render_usage_json(usage: Usage, more: Mapping[str, Any] | None = None) -> str:
    """The JSON text, all rows, one line each; `more` stands before them."""
    head = render_json({**_head(usage), **(more or {})}).removesuffix("\n}\n")
    names = row_fields(usage)
    # Column by column: an encoder called for each row costs a large table seconds.
    columns = [_json_texts(name, usage.rows.column(name)) for name in names]
    form = "  {" + ", ".join(f'"{name}": %s' for name in names) + "}"
    lines = ",\n".join([form % row for row in zip(*columns)])
    return f'{head},\n "rows": [\n{lines}\n ]\n}}\n'


def render_usage_csv(usage: Usage) -> str:
    """One line per row, all rows; what was not recorded is an empty field."""
    names = row_fields(usage)
    columns = [usage.rows.column(name) for name in names]
    if "path" in names:
        columns[names.index("path")] = _json_texts("path", usage.rows.column("path"))
    return render_csv(names, zip(*columns))


def usage_records(usage: Usage) -> list[dict[str, Any]]:
    """All rows, each as its fields by name."""
    names = row_fields(usage)
    return [dict(zip(names, row)) for row in zip(*map(usage.rows.column, names))]


def row_fields(usage: Usage) -> list[str]:
    """The fields of a row that this kind of table has."""
    names = [item.name for item in fields(UsageRow) if _ONLY_BY.get(item.name, usage.by) == usage.by]
    if usage.devices is not None:
        always = ("name", "calls", *_OF_DEVICES)
        return [name for name in names if name in always or any(value is not None for value in usage.rows.column(name))]
    names = [name for name in names if name not in _OF_DEVICES]
    if usage.steps is None:
        return [name for name in names if name not in _OF_NETWORKS]
    # What only a traced program has would be columns of nulls.
    used = [name for name in names if name in _ALWAYS or any(value is not None for value in usage.rows.column(name))]
    return [name for name in used if name not in ("span_calls", "open_calls", "wall_ns")]


def _json_texts(name: str, column: Sequence[Any]) -> list[Any]:
    """What `%s` writes as JSON: texts encoded, None as null, integers as they are."""
    if name in _TEXTS:
        return list(map(json.JSONEncoder(ensure_ascii=False).encode, column))
    return ["null" if value is None else value for value in column]
