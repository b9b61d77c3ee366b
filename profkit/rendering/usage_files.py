"""A table of usage as files: JSON in the schema profkit.usage/1, CSV, Markdown. A Usage in, text or a file out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from profkit.attribution.usage import SCHEMA, Usage, UsageRow
from profkit.capture.tables import Capture
from profkit.rendering.usage_content import (
    ShownLine,
    View,
    build_table,
    footnotes,
    headlines,
    loss_lines,
    no_range_lines,
    warning_lines,
)
from profkit.rendering.whole_file import write_whole

# Fields that only one kind of table has.
_ONLY_BY = {"path": "path", "wall_ns": "thread"}
_TEXTS = ("name", "path")


def _head(usage: Usage) -> dict[str, Any]:
    """All but the rows, as JSON values; sum(exclusive_ns) + remainder_ns == wall_ns exactly."""
    content = {item.name: getattr(usage, item.name) for item in fields(Usage) if item.name not in ("rows", "marks")}
    content["marks"] = [{"name": mark.name, "count": mark.count} for mark in usage.marks]
    return {"schema": SCHEMA, **content}


def render_usage_json(usage: Usage) -> str:
    """The JSON text, all rows, one line each."""
    head = json.dumps(_head(usage), indent=1, allow_nan=False, ensure_ascii=False).removesuffix("\n}")
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
    """The table as on the terminal, without a limit of width."""
    table = build_table(usage, view)
    title, *facts = [_escaped(line) for line in headlines(capture, usage)]
    lines = [f"### {title}", ""]
    lines += [f"**{_escaped(line)}**  " for line in loss_lines(capture)]
    lines += [f"{_escaped(line)}  " for line in warning_lines(capture)]
    lines += [f"{line}  " for line in facts]
    lines += ["", *(f"{line}  " for line in no_range_lines(capture, usage))]
    if usage.rows:
        lines += [_row([table.by, *table.headings]), _row([":--", *("--:" for _ in table.headings)])]
        lines += [_row([_name(line), *map(_escaped, line.texts)]) for line in table.lines]
    lines.append("")
    return "\n".join(lines + [f"- {_escaped(note)}" for note in footnotes(usage)]).rstrip("\n") + "\n"


def write_usage_json(usage: Usage, path: str | Path) -> None:
    """Write the JSON file whole or not at all."""
    write_whole(path, render_usage_json(usage))


def write_usage_csv(usage: Usage, path: str | Path) -> None:
    """Write the CSV file whole or not at all."""
    write_whole(path, render_usage_csv(usage))


def write_usage_markdown(capture: Capture, usage: Usage, view: View, path: str | Path) -> None:
    """Write the Markdown file whole or not at all."""
    write_whole(path, render_usage_markdown(capture, usage, view))


def row_fields(usage: Usage) -> list[str]:
    """The fields of a row that this kind of table has."""
    return [item.name for item in fields(UsageRow) if _ONLY_BY.get(item.name, usage.by) == usage.by]


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
