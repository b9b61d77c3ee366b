"""Blocks as they may be shown: every text of a block in, the same block with all signs visible out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from profkit.rendering.tables.document import Document, Picture
from profkit.rendering.tables.table import Line
from profkit.rendering.terminal import LINES, visible


def visible_blocks(blocks: Sequence[Document]) -> list[Document]:
    """The blocks; line breaks stay, except in the cells of a table."""
    return [_visible(block) for block in blocks]


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value, LINES)
    if isinstance(value, Line):
        return replace(value, texts=tuple(map(visible, value.texts)))
    if isinstance(value, (list, tuple)):
        return [_visible(each) for each in value]
    if not is_dataclass(value):
        return value
    texts = [item.name for item in fields(value) if not (isinstance(value, Picture) and item.name == "svg")]
    return replace(value, **{name: _visible(getattr(value, name)) for name in texts})  # type: ignore[type-var]
