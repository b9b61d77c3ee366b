"""A Result as Markdown tables, for an issue or a README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profkit.measurement.result import Result
from profkit.rendering.content import NOTES, Table, build_tables
from profkit.rendering.whole_file import write_whole


def render_markdown(result: Result, columns: Sequence[str] | None = None, is_verbose: bool = False) -> str:
    """The same tables as on the terminal, without a limit of width."""
    parts = [table_markdown(table) for table in build_tables(result, columns, is_verbose)]
    if result.interrupted:
        parts.append("Interrupted: this is what was measured until then.\n")
    return "\n".join(parts)


def write_markdown(
    result: Result, path: str | Path, columns: Sequence[str] | None = None, is_verbose: bool = False
) -> None:
    """Write the Markdown file whole or not at all."""
    write_whole(path, render_markdown(result, columns, is_verbose))


def table_markdown(table: Table) -> str:
    """One table."""
    lines = [f"### {_escaped(table.title)}", "", *(f"{_escaped(fact)}  " for fact in table.facts), ""]
    if table.lines:
        headings = [NOTES if heading.name == NOTES else heading.text for heading in table.headings]
        lines += [_row(headings), _row([":--" if heading.is_text else "--:" for heading in table.headings])]
        lines += [_row(list(map(_escaped, line.texts))) for line in table.lines] + [""]
    if table.missing:
        lines += [_row(["not measured", "status", "reason"]), _row([":--"] * 3)]
        lines += [_row([_escaped(text) for text in (item.name, item.status, item.reason)]) for item in table.missing]
        lines.append("")
    lines += [f"- {_escaped(text)}" for text in (*table.footer, *table.notes)]
    return "\n".join(lines) + "\n"


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: a reason may hold code, pipes and line breaks."""
    for sign in "\\`*_|<>":
        text = text.replace(sign, f"\\{sign}" if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return "<br>".join(text.splitlines())
