"""The table of all reports, as plain data: columns, lines, and the text around them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from profkit.errors import UsageError, did_you_mean
from profkit.rendering.tables.document import Block, Document, Picture
from profkit.rendering.terminal import LINES, visible


@dataclass(frozen=True)
class TableColumn:
    """The head of a column."""

    name: str
    """Its name in --columns, and that of its metric."""
    heading: str
    help: str = ""
    is_text: bool = False
    """Text is set to the left, numbers to the right."""
    dispensable: int = 0
    """The order in which a table that is too wide omits columns, from 1; 0: never."""
    least_width: int = 0
    """The least width to which its texts may be cut where a table is too wide; 0: never."""


def columns_of(names: Sequence[str], texts: Collection[str], **headings: str) -> list[TableColumn]:
    """Columns by name, each headed by it or as `headings` says; those of `texts` hold words, the others numbers."""
    return [TableColumn(name, headings.get(name, name), is_text=name in texts) for name in names]


@dataclass(frozen=True)
class Line:
    """One text per column; the first is the line's name. A colour may follow from its tone, a verdict or the like."""

    texts: tuple[str, ...]
    tone: str = ""
    level: int = 0
    """In a tree."""
    has_rule: bool = False
    """Whether a rule separates it from the lines above, as for remainders and totals."""

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
    items: Sequence[Item]


@dataclass(frozen=True)
class Table(Block):
    """A table with the text around it."""

    title: str = ""
    facts: Sequence[str] = ()
    columns: Sequence[TableColumn] = ()
    lines: Sequence[Line] = ()
    items: Sequence[Item] = ()
    """Entries without a line, and why."""
    notes: Sequence[str] = ()
    footnotes: Sequence[str] = ()
    """The meaning of letters; short texts, which a terminal may put into one paragraph."""
    losses: Sequence[str] = ()
    """Lost records; shown first, then warnings."""
    warnings: Sequence[str] = ()
    instead: Sequence[str] = ()
    """Shown instead of lines, if there are none."""
    is_dense: bool = True
    """Before a column is left out, names are cut to 18 characters and columns are one space apart."""
    records: Callable[[], list[dict[str, Any]]] | None = None
    """The numbers behind the texts."""

    def to_records(self) -> list[dict[str, Any]]:
        """One record per row: numbers where they are known, else the shown texts."""
        if self.records is not None:
            return self.records()
        names = [column.name for column in self.columns]
        return [dict(zip(names, line.texts)) for line in self.lines]


# --- Signs that may be shown ---


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


# --- Columns by the names people type, the same for every table ---

AnyColumn = TypeVar("AnyColumn", bound=TableColumn)


def find_named(name: str, columns: Sequence[AnyColumn], aliases: Mapping[str, str]) -> AnyColumn:
    """The column of this name or alias; spaces, hyphens and a final `_ns` make no difference."""
    wanted = name.strip().lower().replace("-", "_").replace(" ", "_").removesuffix("_ns")
    wanted = aliases.get(wanted, wanted)
    for column in columns:
        if column.name == wanted:
            return column
    known = [column.name for column in columns]
    hint = did_you_mean(wanted, [*known, *aliases])
    raise UsageError(f"unknown column {name!r}; {hint}columns: {', '.join(known)}")


def wanted_names(names: Sequence[str] | None, default: Sequence[str], first: str) -> list[str]:
    """The default when no name is given; a first `+` adds to it. `first` is always shown; naming it changes nothing."""
    if not names:
        return list(default)
    before = default if names[0].startswith("+") else ()
    return [*before, *(bare for name in names if (bare := name.lstrip("+")).strip() != first)]


def with_order_out(columns: Sequence[AnyColumn], order: Sequence[str]) -> list[AnyColumn]:
    """The columns of a default table, which may be left out in this order."""
    ranks = {name: rank for rank, name in enumerate(order, start=1)}
    return [replace(column, dispensable=ranks.get(column.name, 0)) for column in columns]
