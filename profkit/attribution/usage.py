"""Usage: the answer of attribution, one row per name, path, thread, kind, layer, ... Rendering shows it as it is.

docs/attribution.md says in words what each number means; docs/network.md does for tables of networks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any, overload

SCHEMA = "profkit.usage/1"


@dataclass(frozen=True)
class UsageRow:
    """Time and memory of all ranges under one name. None means not recorded, and is shown as a dash, never as 0."""

    name: str
    calls: int
    inclusive_ns: int  # union of the intervals per thread: a range inside one of the same name counts once
    exclusive_ns: int  # own time of the ranges in the tree; over all rows, with the remainder, it sums to wall_ns
    path: tuple[str, ...] = ()  # by path only: the titles from the outermost range to this one
    span_calls: int = 0  # of `calls`: spans, which have no own time
    open_calls: int = 0  # of `calls`: no end was recorded; they count up to the last known moment
    min_ns: int | None = None
    mean_ns: int | None = None  # of the durations, recursion and all, rounded down
    median_ns: int | None = None
    max_ns: int | None = None
    wall_ns: int | None = None  # by thread only: from the thread's first to its last known moment
    alloc_calls: int | None = None  # allocations made in these ranges themselves or in ranges inside them
    alloc_bytes: int | None = None
    own_alloc_bytes: int | None = None  # made in these ranges themselves; over all rows it sums to the attributed bytes
    live_bytes: int | None = None  # of alloc_bytes: not yet freed when the range ended
    peak_bytes: int | None = None  # most that was live at once of what one range (with its insides) had allocated
    freed_elsewhere_bytes: int | None = None  # of alloc_bytes: freed by another thread or outside the range
    minor_faults: int | None = None
    major_faults: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    overhead_ns: int | None = None  # estimated cost of recording the ranges inside: count times the empty range
    # Of networks only, sums over the recorded steps. Texts are None where the row mixes several.
    kind: str | None = None
    layer: str | None = None
    phase: str | None = None
    type: str | None = None
    pool_cpu_ns: int | None = None  # CPU time of helper threads
    requested_bytes: int | None = None  # allocated by these operators themselves; 0: they work in place
    temporary_bytes: int | None = None  # of these: given back before the operator ended
    flops: int | None = None  # by formula
    moved_bytes: int | None = None  # by formula: what must be read and written at least
    # Of GPU traces only (docs/device-traces.md). exclusive_ns is what the row owns of the GPUs' wall clock: the sum of
    # the seven parts kernel_ns to sync_ns.
    short: str | None = None  # the name as tables print it, where it is long
    launches: int | None = None  # kernels, copies and sets
    device_ns: int | None = None  # sum of their durations, overlaps and all
    device_inclusive_ns: int | None = None  # with those of the ranges inside
    kernel_ns: int | None = None
    auxiliary_ns: int | None = None
    copy_ns: int | None = None
    queue_ns: int | None = None
    dispatch_ns: int | None = None
    call_ns: int | None = None
    sync_ns: int | None = None
    host_ns: int | None = None  # time on the host without the ranges inside
    host_inclusive_ns: int | None = None
    copy_bytes: int | None = None  # of copies and sets

    @property
    def gflops(self) -> float | None:
        """Rate in 10^9 flops per second of own time."""
        return None if self.flops is None or not self.exclusive_ns else self.flops / self.exclusive_ns

    @property
    def idle_ns(self) -> int | None:
        """Wall clock of idle GPUs that this row owns."""
        if self.kernel_ns is None:
            return None
        return self.exclusive_ns - self.kernel_ns - (self.auxiliary_ns or 0) - (self.copy_ns or 0)

    @property
    def copy_rate(self) -> float | None:
        """Bytes per nanosecond (10^9 bytes per second) while they are copied or set; of rows of copies only."""
        return None if not self.copy_bytes or not self.device_ns else self.copy_bytes / self.device_ns

    @property
    def intensity(self) -> float | None:
        """Flops per byte that must move."""
        return None if self.flops is None or not self.moved_bytes else self.flops / self.moved_bytes

    @property
    def has_own_time(self) -> bool:
        """Whether any of the calls is part of a tree."""
        return self.span_calls < self.calls


class UsageRows(Sequence[UsageRow]):
    """Rows kept as columns: a capture may have hundreds of thousands, and a row is made only when looked at."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Columns under the names of UsageRow's fields, all of one length; what is left out has its default."""
        self._columns = dict(columns)
        self._length = len(self._columns["name"])

    def column(self, name: str) -> Sequence[Any]:
        """One field of every row."""
        given = self._columns.get(name)
        return [_DEFAULTS[name]] * self._length if given is None else given

    def in_order(self, order: Sequence[int]) -> UsageRows:
        """The rows of these numbers, in this order."""
        return UsageRows({name: [column[row] for row in order] for name, column in self._columns.items()})

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[UsageRow]:
        columns = (self._columns.get(name, repeat(default)) for name, default in _DEFAULTS.items())
        return map(UsageRow, *columns)

    @overload
    def __getitem__(self, place: int) -> UsageRow: ...
    @overload
    def __getitem__(self, place: slice) -> UsageRows: ...
    def __getitem__(self, place: int | slice) -> UsageRow | UsageRows:
        if isinstance(place, slice):
            return UsageRows({name: column[place] for name, column in self._columns.items()})
        return UsageRow(**{name: column[place] for name, column in self._columns.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


_DEFAULTS = {item.name: item.default for item in fields(UsageRow)}


@dataclass(frozen=True)
class MarkCount:
    """How often a mark was set."""

    name: str
    count: int


@dataclass(frozen=True)
class Remainder:
    """A named part of the time that no row explains."""

    name: str
    time_ns: int | None  # None: it cannot be told from the other parts, which have it
    # Of GPU traces only: what ran in it.
    launches: int | None = None
    device_ns: int | None = None
    copy_bytes: int | None = None
    parts: Mapping[str, int] | None = None  # what time_ns went into, as Usage.parts; those of 0 are left out


@dataclass(frozen=True)
class Usage:
    """A table of usage. sum(exclusive_ns) + remainder_ns == wall_ns, and likewise for allocated bytes."""

    by: str
    wall_ns: int  # thread time: the sum over the threads that have ranges; one thread: from its start to its end
    remainder_ns: int  # of wall_ns: no range was open
    elapsed_ns: int
    threads: int  # how many were summed
    dropped: int
    total_alloc_bytes: int | None
    unattributed_alloc_bytes: int | None  # allocated while no range was open
    total_peak_bytes: int | None  # most recorded bytes live at once in the process(es)
    rows: UsageRows
    total_alloc_calls: int | None = None
    small_alloc_calls: int | None = None  # below the recorded size: only counted, in no row and in no total
    small_alloc_bytes: int | None = None
    marks: tuple[MarkCount, ...] = ()
    overhead_ns: int | None = None  # estimated cost of recording all ranges; part of wall_ns unless subtracted
    is_overhead_subtracted: bool = False
    replaced_names: int = 0  # so often a name was recorded as "(too many names)"
    # Of networks only.
    steps: int | None = None  # times, bytes, calls and flops are sums over so many steps
    remainders: tuple[Remainder, ...] = ()  # parts of remainder_ns
    subject: Mapping[str, Any] | None = None  # network, framework, mode, threads, training
    notes: tuple[str, ...] = ()  # what a reader of the numbers must know
    # Of GPU traces only.
    devices: int | None = None  # wall_ns is the wall clock of so many GPUs together; 0: of threads, no GPU did anything
    device_ns: int | None = None  # all kernels, copies and sets, overlaps and all
    parts: Mapping[str, int] | None = None  # what wall_ns went into, in all; they sum to it

    def mean_of_steps(self) -> Usage:
        """The same table for one step: every sum divided by the number of steps."""
        if not self.steps or self.steps == 1:
            return self

        def mean(value: Any) -> Any:
            return None if value is None else value / self.steps

        columns = {
            name: list(map(mean, self.rows.column(name))) if name in _SUMS else self.rows.column(name)
            for name in _DEFAULTS
        }
        totals = {name: mean(getattr(self, name)) for name in _TOTAL_SUMS}
        parts = tuple(Remainder(part.name, mean(part.time_ns)) for part in self.remainders)
        return replace(self, rows=UsageRows(columns), remainders=parts, **totals)


_SUMS = frozenset(
    {"calls", "inclusive_ns", "exclusive_ns", "pool_cpu_ns", "requested_bytes", "temporary_bytes", "flops"}
    | {"moved_bytes", "own_alloc_bytes"}
)
_TOTAL_SUMS = ("wall_ns", "remainder_ns", "elapsed_ns", "total_alloc_bytes", "unattributed_alloc_bytes")
