"""Columns by the names people type: `--columns +page-faults,time`, for every table alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Protocol, TypeVar

from profkit.errors import UsageError


class Named(Protocol):
    """Anything with a column name."""

    @property
    def name(self) -> str: ...


AnyColumn = TypeVar("AnyColumn", bound=Named)


def find_named(name: str, columns: Sequence[AnyColumn], aliases: Mapping[str, str]) -> AnyColumn:
    """The column of this name or alias; spaces, hyphens and a final `_ns` make no difference."""
    wanted = name.strip().lower().replace("-", "_").replace(" ", "_").removesuffix("_ns")
    wanted = aliases.get(wanted, wanted)
    for column in columns:
        if column.name == wanted:
            return column
    known = [column.name for column in columns]
    nearest = get_close_matches(wanted, [*known, *aliases], n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise UsageError(f"unknown column {name!r}; {hint}columns: {', '.join(known)}")


def wanted_names(names: Sequence[str] | None, default: Sequence[str], first: str) -> list[str]:
    """The default when no name is given; a first `+` adds to it. `first` is always shown; naming it changes nothing."""
    if not names:
        return list(default)
    before = default if names[0].startswith("+") else ()
    return [*before, *(bare for name in names if (bare := name.lstrip("+")).strip() != first)]
