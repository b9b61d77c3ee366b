"""The one table of all reports, as plain data: columns, lines, and the text around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.rendering.tables.document import Block


@dataclass(frozen=True)
class Column:
    """Top of a column."""

    name: str
    """How it is asked for, and the name of its metric."""
    heading: str
    help: str = ""
    is_text: bool = False
    """Text is set to the left, numbers to the right."""
    dispensable: int = 0
    """In which order a table that is too wide may leave columns out, from 1; 0 is never."""
    least_width: int = 0
    """To how many cells its texts may be cut where a table is too wide; 0 is never."""


@dataclass(frozen=True)
class Line:
    """One text per column; the first is the line's name. A colour may follow from its tone, a verdict or the like."""

    texts: tuple[str, ...]
    tone: str = ""
    level: int = 0
    """In a tree."""
    has_rule: bool = False
    """Whether it is set apart from the lines above it, as remainders and totals are."""

    @property
    def name(self) -> str:
        """The text that stays when columns continue below."""
        return self.texts[0]


@dataclass(frozen=True)
class Item:
    """A line of a list: a name, a status and a text of any length."""

    name: str
    status: str
    text: str


@dataclass(frozen=True)
class Items(Block):
    """Names, a status and a text each."""

    items: Sequence[Item]


@dataclass(frozen=True)
class Table(Block):
    """One table with all that is said around it."""

    title: str = ""
    facts: Sequence[str] = ()
    columns: Sequence[Column] = ()
    lines: Sequence[Line] = ()
    items: Sequence[Item] = ()
    """What has no line, and why."""
    notes: Sequence[str] = ()
    footnotes: Sequence[str] = ()
    """What letters mean; short texts, which a terminal may put into one paragraph."""
    losses: Sequence[str] = ()
    """Lost records; shown first, then warnings."""
    warnings: Sequence[str] = ()
    instead: Sequence[str] = ()
    """In place of lines, where there are none."""
    is_dense: bool = True
    """Before a column is left out, names are cut to 18 characters and columns are one space apart."""
    records: Callable[[], list[dict[str, Any]]] | None = None
    """The numbers behind the texts."""

    def to_records(self) -> list[dict[str, Any]]:
        """One record per row: numbers where they are known, else what is shown."""
        if self.records is not None:
            return self.records()
        names = [column.name for column in self.columns]
        return [dict(zip(names, line.texts)) for line in self.lines]
