"""Usage: the answer of attribution. Rows are columns by the names of metrics (metrics.py); rendering shows them as is.

docs/attribution.md says in words what each number means; docs/network.md and docs/device-traces.md do for steps and
GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

Value = int | float | None
NAME = "name"


class UsageRow:
    """One row of a table, with its recorded numbers and texts as attributes; None: not recorded."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], place: int) -> None:
        self._values = {name: column[place] for name, column in columns.items()}

    def __getattr__(self, name: str) -> Any:
        from profkit.attribution.metrics import METRICS  # which imports this module

        if not any(metric.name == name and metric.derived is None for metric in METRICS):
            raise AttributeError(f"no metric {name!r} is recorded")
        return self._values.get(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UsageRow) and self._values == other._values

    def __repr__(self) -> str:
        return f"UsageRow({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    __hash__ = None  # type: ignore[assignment]


class UsageRows(Sequence[UsageRow]):
    """Rows kept as columns: a capture may have hundreds of thousands, and a row is made only when looked at."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Columns by the names of metrics, all of one length; a missing one was not recorded."""
        self.columns = dict(columns)

    def column(self, name: str) -> Sequence[Any]:
        """One metric of every row; None where it was not recorded."""
        given = self.columns.get(name)
        return [None] * len(self) if given is None else given

    def sum(self, name: str) -> Any:
        """Of one metric, without unknown values; None if there is none."""
        known = [value for value in self.columns.get(name, ()) if value is not None]
        return sum(known) if known else None

    def in_order(self, order: Sequence[int]) -> UsageRows:
        """The rows of these numbers, in this order."""
        return UsageRows({name: [column[row] for row in order] for name, column in self.columns.items()})

    def __len__(self) -> int:
        return len(self.columns[NAME])

    def __iter__(self) -> Iterator[UsageRow]:
        return (UsageRow(self.columns, place) for place in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> UsageRow: ...
    @overload
    def __getitem__(self, place: slice) -> UsageRows: ...
    def __getitem__(self, place: int | slice) -> UsageRow | UsageRows:
        if isinstance(place, slice):
            return UsageRows({name: column[place] for name, column in self.columns.items()})
        return UsageRow(self.columns, place)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Remainder:
    """A named part of the whole that no row explains."""

    name: str
    values: Mapping[str, Value]
    """By metric. A time of None cannot be distinguished from the other remainders, which have it."""

    @property
    def time_ns(self) -> Any:
        """Of the clock."""
        return self.values.get("exclusive_ns")


@dataclass(frozen=True)
class Usage:
    """A table of usage. Rows and remainders add up to `wall_ns`, and likewise for allocated bytes."""

    by: str
    clock: str
    wall_ns: Any
    """Nanoseconds of the clock; whole unless it is the mean of steps."""
    elapsed_ns: Any
    threads: int
    """How many were summed."""
    dropped: int
    rows: UsageRows
    remainders: tuple[Remainder, ...]
    totals: Mapping[str, Value]
    """Of the whole, by metric, where that is not the sum of rows and remainders; None: not recorded."""
    steps: int | None = None
    """Times, bytes, calls and flops are sums over this number of steps."""
    devices: int | None = None
    """wall_ns is the wall clock of this number of GPUs together; 0: of threads, no GPU did anything."""
    parts: Mapping[str, int] | None = None
    """The parts of wall_ns, where a clock has several; they sum to it."""
    marks: Mapping[str, int] = field(default_factory=dict)
    """How often each mark was set."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know."""
    subject: Mapping[str, Any] = field(default_factory=dict)
    """What was measured: network, framework, devices, ..."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is said of the whole: smaller allocations, whether the cost of recording is subtracted."""

    @property
    def remainder_ns(self) -> Any:
        """Of wall_ns: what no row has."""
        return self.left("exclusive_ns") or 0

    def left(self, metric: str) -> Value:
        """What no row has of a metric; None when it is not known."""
        known = [value for each in self.remainders if (value := each.values.get(metric)) is not None]
        return sum(known) if known else None

    @property
    def total_alloc_bytes(self) -> Any:
        """Bytes requested in total; None: not recorded."""
        return self.totals.get(self._asked)

    @property
    def unattributed_alloc_bytes(self) -> Any:
        """Of these: in no row."""
        return None if self.total_alloc_bytes is None else self.left(self._asked) or 0

    @property
    def total_peak_bytes(self) -> Any:
        """Most bytes live at once, of all together."""
        return self.totals.get("peak_bytes")

    @property
    def _asked(self) -> str:
        return "own_alloc_bytes" if self.steps is None else "requested_bytes"


def largest_first(columns: Mapping[str, Sequence[Any]], *metrics: str) -> list[int]:
    """Rows by these metrics, the largest first, then by name: a stable sort by numbers of rows sorted by name."""
    names = columns[NAME]
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    keys = [-np.array(columns[name], np.int64)[by_name] for name in reversed(metrics)]
    order: list[int] = by_name[np.lexsort(keys)].tolist()
    return order
