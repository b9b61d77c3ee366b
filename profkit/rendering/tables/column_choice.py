"""Columns by the names people type: `--columns +page-faults,time`, for every table alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from profkit.errors import UsageError, did_you_mean
from profkit.rendering.tables.table import Column

AnyColumn = TypeVar("AnyColumn", bound=Column)


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
