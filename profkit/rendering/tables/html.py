"""Blocks as HTML: a fragment as a notebook shows it, or a self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import repeat

from profkit.rendering.tables.document import Bullets, Code, Document, Heading, Paragraph, Picture
from profkit.rendering.tables.table import Items, Table, visible_blocks

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{title}</title>
<style>
body {{ font: 15px/1.5 sans-serif; color: #222; background: #fff; max-width: 1100px; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; display: block }}
table {{ overflow-x: auto; font-size: 13px }}
th, td {{ padding: 2px 9px; border-bottom: 1px solid #e3e3e3; vertical-align: top }}
pre {{ overflow-x: auto; background: #f6f6f6; padding: 0.6em; font-size: 12px; }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
# Inline styles only: a notebook may drop a style sheet. The colours are readable on light and dark pages.
_TEXT, _NUMBER = "text-align:left;white-space:pre-wrap", "text-align:right;white-space:nowrap"
_NAME = "text-align:left;white-space:nowrap"
_TONES = {
    "baseline": "font-weight:bold",
    "faster": "color:#2e9e4f",
    "slower": "color:#d0453a",
    "not resolved": "color:#b8860b",
    "doubtful": "color:#d0453a;font-weight:bold",
    "lives on repeated inputs": "color:#c0392b",
    "lives on repeated calls": "color:#c0392b",
    "faster than the machine": "color:#c0392b",
    "total": "font-weight:bold",
}


def render_html(blocks: Sequence[Document]) -> str:
    return f"<div>{_joined(visible_blocks(blocks))}</div>"


def render_file(document: Document) -> str:
    """One page, with nothing to load from elsewhere."""
    shown = visible_blocks(document.blocks)
    titles = [block.content for block in shown if isinstance(block, Heading)]
    titles += [block.title for block in shown if isinstance(block, Table)]
    return _PAGE.format(title=escape(titles[0] if titles else ""), body=_joined(shown))


def _joined(blocks: Sequence[Document]) -> str:
    return "\n".join(map(_block, blocks))


def _block(block: Document) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Items):
        return _grid([], [(item.name, item.status, item.text) for item in block.items], [_NAME, _TEXT, _TEXT])
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.content)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.content)}</p>"
    if isinstance(block, Bullets):
        return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Picture):
        # Without the prolog, which belongs to a separate file.
        return f'<div role="img" aria-label="{escape(block.alternative)}">{block.svg[block.svg.index("<svg") :]}</div>'
    return f"<pre>{escape(block.content.rstrip())}</pre>" if isinstance(block, Code) else ""


def _table(table: Table) -> str:
    head = [*table.losses, *table.warnings, table.title]
    parts = [f"<div><b>{escape(text)}</b></div>" for text in head if text]
    parts += [f"<div>{escape(text)}</div>" for text in (*table.facts, *(() if table.lines else table.instead))]
    styles = [_TEXT if column.is_text else _NUMBER for column in table.columns]
    styles[:1] = [_NAME]
    if table.lines:
        headings = [
            f'<th style="{style}" title="{escape(column.help)}">{escape(column.heading)}</th>'
            for column, style in zip(table.columns, styles)
        ]
        rows = [("\u2003" * line.level + line.name, *line.texts[1:]) for line in table.lines]
        parts.append(_grid(headings, rows, styles, [_TONES.get(line.tone, "") for line in table.lines]))
    parts += [_block(Items(table.items))] if table.items else []
    parts += [f"<div><small>{escape(text)}</small></div>" for text in (*table.notes, *table.footnotes)]
    return "\n".join(parts)


def _grid(
    headings: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str], tones: Sequence[str] = ()
) -> str:
    head = f"<thead><tr>{''.join(headings)}</tr></thead>\n" if headings else ""
    lines = []
    for row, tone in zip(rows, tones or repeat("")):
        cells = "".join(f'<td style="{style}">{escape(text)}</td>' for style, text in zip(styles, row))
        lines.append(f'<tr style="{tone}">{cells}</tr>' if tone else f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return f"<table>\n{head}<tbody>\n{body}\n</tbody>\n</table>"
