"""A table of usage as files: JSON in the schema profkit.usage/1, CSV, Markdown. A Usage in, text or a file out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from profkit.attribution.usage import SCHEMA, Usage, UsageRow
from profkit.capture.schema import Capture
from profkit.rendering.usage_content import ShownLine, Surroundings, View, build_table, surroundings
from profkit.rendering.whole_file import write_whole

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
    head = json.dumps({**_head(usage), **(more or {})}, indent=1, allow_nan=False, ensure_ascii=False).removesuffix(
        "\n}"
    )
    names = row_fields(usage)
    # Column by column: an encoder called for each row costs a large table seconds.
    columns = [_json_texts(name, usage.rows.column(name)) for name in names]
    form = "  {" + ", ".join(f'"{name}": %s' for name in names) + "}"
    lines = ",\n".join([form % row for row in zip(*columns)])
    return f'{head},\n "rows": [\n{lines}\n ]\n}}\n'


def render_usage_csv(usage: Usage) -> str:
    """One line per row, all rows; what was not recorded is an empty field."""
    names = row_fields(usage)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    columns = [usage.rows.column(name) for name in names]
    if "path" in names:
        columns[names.index("path")] = _json_texts("path", usage.rows.column("path"))
    writer.writerows(zip(*columns))
    return stream.getvalue()


def render_usage_markdown(capture: Capture, usage: Usage, view: View) -> str:
    """The report of a traced program, without a limit of width."""
    return render_report_markdown(surroundings(capture, usage), usage, view)


def render_report_markdown(around: Surroundings, usage: Usage, view: View) -> str:
    """The table as on the terminal with what stands around it, without a limit of width."""
    table = build_table(usage, view)
    title, *facts = [_escaped(line) for line in around.heads]
    lines = [f"### {title}", ""]
    lines += [f"**{_escaped(line)}**  " for line in around.losses]
    lines += [f"{_escaped(line)}  " for line in around.warnings]
    lines += [f"{line}  " for line in facts]
    lines += ["", *(f"{line}  " for line in around.instead)]
    if usage.rows:
        lines += markdown_table(table.by, table.headings, [(_name(line), line.texts) for line in table.lines])
    lines.append("")
    return "\n".join(lines + [f"- {_escaped(note)}" for note in around.notes]).rstrip("\n") + "\n"


def markdown_table(first: str, headings: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Lines of a table whose first column is text (ready for Markdown), and whose others are numbers."""
    return [
        _row([first, *headings]),
        _row([":--", *("--:" for _ in headings)]),
        *(_row([name, *map(_escaped, texts)]) for name, texts in lines),
    ]


def write_usage_json(usage: Usage, path: str | Path, more: Mapping[str, Any] | None = None) -> None:
    """Write the JSON file whole or not at all."""
    write_whole(path, render_usage_json(usage, more))


def write_usage_csv(usage: Usage, path: str | Path) -> None:
    """Write the CSV file whole or not at all."""
    write_whole(path, render_usage_csv(usage))


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


def _name(line: ShownLine) -> str:
    # Markdown drops leading spaces, so the level of a tree is drawn with hard ones.
    return "&nbsp;&nbsp;" * line.level + _escaped(line.name)


def _row(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    for sign in "\\`*_|[]":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("<", "&lt;").replace(">", "&gt;")
