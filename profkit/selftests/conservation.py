"""Nothing is lost or counted twice: a capture in, a finding for each quantity of its tables that must add up out.

What tables attribute is compared with sums that are made here, straight from the capture's columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from profkit.attribution.account import DEVICES, THREADS, account
from profkit.attribution.grouping import groupings_on
from profkit.attribution.tables import usage
from profkit.attribution.usage import Usage
from profkit.capture.schema import NONE, Capture, RangeKind
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, Finding

Sums = tuple[int, int, int]
"""Attributed to rows, remainder, total."""


def check_conservation(capture: Capture) -> list[Finding]:
    """Of the program's own time and memory."""
    ranges, allocations = capture.ranges, capture.allocations
    is_outermost = (ranges.kind == RangeKind.RANGE) & (ranges.parent == NONE)
    in_ranges_ns = int((ranges.end_ns - ranges.start_ns)[is_outermost].sum())
    total_bytes, outside_bytes = int(allocations.bytes.sum()), int(allocations.bytes[allocations.range == NONE].sum())
    tables = _tables(capture, THREADS)
    times = {
        by: ((_sum(table.rows.column("exclusive_ns")), table.remainder_ns, table.wall_ns), in_ranges_ns)
        for by, table in tables.items()
    }
    sizes = {by: (_bytes(table), total_bytes - outside_bytes) for by, table in tables.items()}
    return [_judged("conservation of time", times, "ns"), _judged("conservation of bytes", sizes, "bytes")]


def check_device_conservation(capture: Capture) -> list[Finding]:
    """Of the GPU's: its wall clock, its launches and its memory."""
    span_ns = capture.duration_ns
    sizes = capture.memory_events.bytes
    allocated = int(sizes[(sizes > 0) & (capture.memory_events.range != NONE)].sum())
    tables = _tables(capture, DEVICES)
    times = {
        by: ((_sum(table.rows.column("exclusive_ns")), table.remainder_ns, (table.devices or 0) * span_ns), None)
        for by, table in tables.items()
    }
    launches = {
        by: (
            (
                _sum(table.rows.column("launches")),
                int(table.left("launches") or 0),
                len(capture.activities),
            ),
            None,
        )
        for by, table in tables.items()
    }
    # Only tables of ranges own memory.
    memory = {
        by: (_bytes(table), allocated if by == "operator" else None)  # of layers and phases not all ranges are known
        for by, table in tables.items()
        if table.total_alloc_bytes is not None
    }
    return [
        _judged("conservation of time", times, "ns"),
        _judged("conservation of launches", launches, "launches"),
        _judged("conservation of bytes", memory, "bytes"),
    ]


def _tables(capture: Capture, clock: str) -> dict[str, Usage]:
    """All tables of a clock, which is accounted for once."""
    shares = account(capture, clock)
    return {by: usage(shares, by) for by in groupings_on(clock)}


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)


def _bytes(table: Usage) -> Sums:
    attributed = _sum(table.rows.column("own_alloc_bytes"))
    return attributed, table.unattributed_alloc_bytes or 0, table.total_alloc_bytes or 0


def _judged(name: str, tables: Mapping[str, tuple[Sums, int | None]], unit: str) -> Finding:
    """Each table's rows and remainder must make up its total, and rows what is known of them, exactly."""
    numbers = {by: dict(zip(("attributed", "remainder", "total"), sums)) for by, (sums, _) in tables.items()}
    if not any(total for (_, _, total), _ in tables.values()):
        return Finding(name, NOT_PROVEN, "nothing of it was recorded", numbers)
    troubles = []
    for by, ((attributed, remainder, total), known) in tables.items():
        if attributed + remainder != total:
            troubles.append(f"by {by} {attributed:,} attributed + {remainder:,} remainder is not {total:,} {unit}")
        if remainder < 0:
            troubles.append(f"by {by} the remainder is {remainder:,} {unit}")
        if known is not None and attributed != known:
            troubles.append(f"by {by} {attributed:,} attributed, {known:,} {unit} recorded in ranges")
    if troubles:
        return Finding(name, WRONG, "; ".join(troubles), numbers)
    (attributed, remainder, total), _ = next(iter(tables.values()))
    text = f"by {', '.join(tables)}: {attributed:,} attributed + {remainder:,} remainder = {total:,} {unit}"
    return Finding(name, PROVEN, text, numbers)
