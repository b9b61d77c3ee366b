"""Usage: the answer of attribution, one row per name, path, thread, category or domain. Rendering shows it as it is.

docs/attribution.md says in words what each number means.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def has_own_time(self) -> bool:
        """Whether any of the calls is part of a tree."""
        return self.span_calls < self.calls


@dataclass(frozen=True)
class MarkCount:
    """How often a mark was set."""

    name: str
    count: int


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
    rows: tuple[UsageRow, ...]
    total_alloc_calls: int | None = None
    small_alloc_calls: int | None = None  # below the recorded size: only counted, in no row and in no total
    small_alloc_bytes: int | None = None
    marks: tuple[MarkCount, ...] = ()
    overhead_ns: int | None = None  # estimated cost of recording all ranges; part of wall_ns unless subtracted
    is_overhead_subtracted: bool = False
