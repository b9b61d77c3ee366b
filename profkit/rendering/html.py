"""A Result or a table of usage as HTML, as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from profkit.attribution.usage import Usage
from profkit.measurement.result import Result
from profkit.rendering.content import Heading, Line, Table, build_tables
from profkit.rendering.usage_content import Surroundings, View, build_table

# Inline styles only: a notebook may drop a style sheet. The colours are readable on light and dark pages.
_TONES = {
    "baseline": "font-weight:bold",
    "faster": "color:#2e9e4f",
    "slower": "color:#d0453a",
    "not resolved": "color:#b8860b",
    "total": "font-weight:bold",
}


def render_html(result: Result, columns: Sequence[str] | None = None) -> str:
    """The same tables as on the terminal."""
    parts = [_table(table) for table in build_tables(result, columns)]
    if result.interrupted:
        parts.append("<p><b>interrupted</b>: this is what was measured until then</p>")
    return f"<div>{''.join(parts)}</div>"


def report_html(around: Surroundings, usage: Usage) -> str:
    """The table of a capture with what stands around it, as on the terminal."""
    shown = build_table(usage, View())
    title, *facts = around.heads
    return _table(
        Table(
            title,
            (*around.losses, *around.warnings, *facts),
            (Heading(shown.by, shown.by, True), *(Heading(text, text) for text in shown.headings)),
            # The spaces of a tree's levels stay: cells are pre-wrap.
            tuple(Line((f"{'  ' * line.level}{line.name}", *line.texts), line.tone) for line in shown.lines)
            if usage.rows
            else (),
            footer=(*around.instead, *around.notes),
        )
    )


def _table(table: Table) -> str:
    title = f"<p><b>{escape(table.title)}</b>{''.join(f'<br>{escape(fact)}' for fact in table.facts)}</p>"
    aligns = ["left" if heading.is_text else "right" for heading in table.headings]
    head = "".join(
        f'<th style="text-align:{align}">{escape(heading.text)}</th>' for heading, align in zip(table.headings, aligns)
    )
    body = "".join(_line(line, aligns) for line in table.lines)
    parts = [title, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"] if table.lines else [title]
    if table.missing:
        rows = (_cells((item.name, item.status, item.reason), ["left"] * 3) for item in table.missing)
        parts.append(f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in rows)}</tbody></table>")
    below = (*table.footer, *table.notes)
    if below:
        parts.append(f"<p><small>{'<br>'.join(map(escape, below))}</small></p>")
    return "".join(parts)


def _line(line: Line, aligns: Sequence[str]) -> str:
    tone = _TONES.get(line.tone, "")
    return f'<tr style="{tone}">{_cells(line.texts, aligns)}</tr>'


def _cells(texts: Iterable[str], aligns: Sequence[str]) -> str:
    return "".join(
        f'<td style="text-align:{align};white-space:pre-wrap">{escape(text)}</td>' for text, align in zip(texts, aligns)
    )
