"""A document of a few kinds of blocks, written as Markdown or as an HTML page that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
th, td {{ padding: 2px 9px; border-bottom: 1px solid #e3e3e3; text-align: right; vertical-align: top }}
th, td {{ white-space: nowrap }}
th.text, td.text {{ text-align: left; white-space: normal }}
td.text:first-child {{ white-space: nowrap }}
pre {{ overflow-x: auto; background: #f6f6f6; padding: 0.6em; font-size: 12px; }}
svg {{ max-width: 100%; height: auto; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class Heading:
    """1 is the document's title."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table; the first `texts` columns hold words and stand left, the others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1


@dataclass(frozen=True)
class Picture:
    """Markdown shows the file, HTML the drawing itself."""

    file: str
    alternative: str
    svg: str


@dataclass(frozen=True)
class Code:
    text: str


Block = Heading | Paragraph | Bullets | Grid | Picture | Code


def render_markdown(blocks: Sequence[Block]) -> str:
    """The document as Markdown."""
    return "\n\n".join(text for block in blocks if (text := _markdown(block))) + "\n"


def render_page(blocks: Sequence[Block]) -> str:
    """The document as one HTML page, with nothing to load from elsewhere."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    return _PAGE.format(title=escape(title), body="\n".join(_html(block) for block in blocks))


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_escaped(block.text)}"
    if isinstance(block, Paragraph):
        return _escaped(block.text)
    if isinstance(block, Bullets):
        return "\n".join(f"- {_escaped(item)}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{_escaped(block.alternative)}]({block.file})" if block.file else ""
    if isinstance(block, Code):
        return f"```\n{block.text.rstrip()}\n```"
    marks = [":--" if place < block.texts else "--:" for place in range(len(block.headings))]
    lines = [
        [_escaped(text) for text in block.headings],
        marks,
        *([_escaped(text) for text in row] for row in block.rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Picture):
        # Without the prolog, which belongs to a file of its own.
        return f'<div role="img" aria-label="{escape(block.alternative)}">{block.svg[block.svg.index("<svg") :]}</div>'
    if isinstance(block, Code):
        return f"<pre>{escape(block.text.rstrip())}</pre>"
    head = _cells("th", block.headings, block.texts)
    body = "\n".join(f"<tr>{_cells('td', row, block.texts)}</tr>" for row in block.rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _cells(tag: str, texts: Sequence[str], words: int) -> str:
    left = ' class="text"'
    return "".join(
        f"<{tag}{left if place < words else ''}>{escape(text)}</{tag}>" for place, text in enumerate(texts)
    )  # fmt: skip


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    for sign in "\\`*_|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.replace("<", "&lt;").replace(">", "&gt;").splitlines())
