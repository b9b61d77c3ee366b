"""Blocks as Markdown, for an issue or a README: everything, without a limit of width."""

from __future__ import annotations

import re
from collections.abc import Sequence

from profkit.rendering.tables.document import Bullets, Code, Document, Heading, Paragraph, Picture
from profkit.rendering.tables.table import Item, Items, Table, visible_blocks

_ESCAPES = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_|"}, "<": "&lt;", ">": "&gt;"})


def render_markdown(blocks: Sequence[Document]) -> str:
    """All blocks, with a blank line between them."""
    return "\n\n".join(filter(None, map(_block, visible_blocks(blocks)))) + "\n"


def render_file(document: Document) -> str:
    return document.markdown()


def escaped_markdown(text: str) -> str:
    """Text that Markdown shows as it is: a reason may hold code, pipes and line breaks."""
    return "<br>".join(text.translate(_ESCAPES).replace("](", "]\\(").splitlines())


def _block(block: Document) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Items):
        return _items(block.items)
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escaped_markdown(block.content)}"
    if isinstance(block, Paragraph):
        return escaped_markdown(block.content)
    if isinstance(block, Bullets):
        return _bullets(block.items)
    if isinstance(block, Picture):
        return f"![{escaped_markdown(block.alternative)}]({block.file})" if block.file else ""
    return _fenced(block.content.rstrip()) if isinstance(block, Code) else ""


def _fenced(code: str) -> str:
    """Between delimiters that the text does not contain."""
    fence = "`" * max(3, *(len(marks) + 1 for marks in re.findall("`+", code) or [""]))
    return f"{fence}\n{code}\n{fence}"


def _table(table: Table) -> str:
    facts = [f"**{escaped_markdown(text)}**  " for text in table.losses]
    facts += [f"{escaped_markdown(text)}  " for text in (*table.warnings, *table.facts)]
    parts = [f"### {escaped_markdown(table.title)}" if table.title else "", "\n".join(facts)]
    if table.lines:
        # Markdown drops leading spaces, so the level of a tree is drawn with hard ones.
        rows = [[escaped_markdown(text) for text in line.texts] for line in table.lines]
        rows = [["&nbsp;&nbsp;" * line.level + name, *rest] for line, (name, *rest) in zip(table.lines, rows)]
        headings = [escaped_markdown(column.heading or column.name) for column in table.columns]
        parts.append(_grid(headings, rows, [column.is_text for column in table.columns]))
    else:
        parts.append("\n".join(f"{escaped_markdown(text)}  " for text in table.instead))
    parts += [_items(table.items), _bullets([*table.notes, *table.footnotes])]
    return "\n\n".join(filter(None, parts))


def _items(items: Sequence[Item]) -> str:
    rows = [[escaped_markdown(text) for text in (item.name.strip(), item.status, item.text)] for item in items]
    return _grid(["not measured", "status", "reason"], rows, [True] * 3) if items else ""


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]], are_texts: Sequence[bool]) -> str:
    marks = [":--" if is_text else "--:" for is_text in are_texts]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, marks, *rows))


def _bullets(items: Sequence[str]) -> str:
    return "\n".join(f"- {escaped_markdown(item)}" for item in items)
