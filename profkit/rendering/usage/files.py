"""The rows of a Usage for programs: JSON in the schema profkit.usage/1, CSV, records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.attribution.metrics import METRICS, TEXT
from profkit.attribution.usage import Remainder, Usage
from profkit.rendering.tables.csv_file import render_csv
from profkit.rendering.tables.json_file import escaped, render_json

SCHEMA = "profkit.usage/1"
_FACTS = {"small_alloc_calls": None, "small_alloc_bytes": None, "is_overhead_subtracted": False, "replaced_names": 0}


def _head(usage: Usage) -> dict[str, Any]:
    """All but the rows, as JSON values; sum(exclusive_ns) + remainder_ns == wall_ns exactly."""
    facts = {**_FACTS, **usage.facts}
    content = {
        "by": usage.by,
        "wall_ns": usage.wall_ns,
        "remainder_ns": usage.remainder_ns,
        "elapsed_ns": usage.elapsed_ns,
        "threads": usage.threads,
        "dropped": usage.dropped,
        "total_alloc_bytes": usage.total_alloc_bytes,
        "unattributed_alloc_bytes": usage.unattributed_alloc_bytes,
        "total_peak_bytes": usage.total_peak_bytes,
        "total_alloc_calls": usage.totals.get("alloc_calls"),
        "small_alloc_calls": facts["small_alloc_calls"],
        "small_alloc_bytes": facts["small_alloc_bytes"],
        "overhead_ns": usage.totals.get("overhead_ns"),
        "is_overhead_subtracted": facts["is_overhead_subtracted"],
        "replaced_names": facts["replaced_names"],
    }
    if usage.steps is not None:
        content |= {"steps": usage.steps, "remainders": {part.name: part.time_ns for part in usage.remainders}}
    if usage.parts is not None:
        parts = [part for part in usage.remainders if part.time_ns is not None]
        content["remainders"] = {part.name: _part(part, usage.parts) for part in parts}
    if usage.subject:
        content |= {"subject": usage.subject, "notes": usage.notes}
    if usage.parts is not None:
        content |= {"devices": usage.devices, "device_ns": usage.totals["device_ns"], "parts": usage.parts}
    marks = [{"name": name, "count": count} for name, count in usage.marks.items()]
    return {"schema": SCHEMA, **content, "marks": marks}


def _part(part: Remainder, names: Mapping[str, Any]) -> dict[str, Any]:
    """A remainder of a GPU's wall clock, with what ran in it."""
    work = {name: part.values.get(name, 0) for name in ("launches", "device_ns", "copy_bytes")}
    parts = {name: value for name, value in part.values.items() if name in names}
    return {"name": part.name, "time_ns": part.time_ns, **work, "parts": parts}


def render_usage_json(usage: Usage, more: Mapping[str, Any] | None = None) -> str:
    """The JSON text, all rows, one line each; `more` precedes them."""
    head = render_json({**_head(usage), **(more or {})}).removesuffix("\n}\n")
    names = usage_fields(usage)
    # Column by column: an encoder called for each row costs a large table seconds.
    columns = [_json_texts(name, usage.rows.column(name)) for name in names]
    form = "  {" + ", ".join(f'"{name}": %s' for name in names) + "}"
    lines = ",\n".join([form % row for row in zip(*columns)])
    return escaped(f'{head},\n "rows": [\n{lines}\n ]\n}}\n')


def render_usage_csv(usage: Usage) -> str:
    """One line per row, all rows; what was not recorded is an empty field."""
    names = usage_fields(usage)
    columns = [usage.rows.column(name) for name in names]
    if "path" in names:
        columns[names.index("path")] = _json_texts("path", usage.rows.column("path"))
    return render_csv(names, zip(*columns))


def usage_records(usage: Usage) -> list[dict[str, Any]]:
    names = usage_fields(usage)
    return [dict(zip(names, row)) for row in zip(*map(usage.rows.column, names))]


def usage_fields(usage: Usage) -> list[str]:
    """The fields that tables of this clock by this have, recorded or not."""
    return [metric.name for metric in METRICS if metric.recorder(usage.clock, usage.by)]


def _json_texts(name: str, column: Sequence[Any]) -> list[Any]:
    """What `%s` writes as JSON: texts encoded, None as null, integers as they are."""
    if any(metric.name == name and metric.unit == TEXT for metric in METRICS):
        return list(map(json.JSONEncoder(ensure_ascii=False).encode, column))
    return ["null" if value is None else value for value in column]
