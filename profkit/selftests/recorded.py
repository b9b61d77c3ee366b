"""Running a program of the selftest under the tracer, and comparing counts: what it did against what was recorded.

Nothing is lost or counted twice, too: what tables attribute is compared with sums that are made here, straight from the
capture's columns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from profkit.attribution.account import DEVICES, THREADS, account
from profkit.attribution.aggregation import usage
from profkit.attribution.grouping import groupings_on
from profkit.attribution.usage import Usage
from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.reading import read
from profkit.capture.schema import NONE, Capture, RangeKind
from profkit.errors import ProfkitError
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckResult

SIDES = ("made", "recorded")


def run_recorded(module: str, folder: str, limit_s: float) -> tuple[Capture, dict[str, Any]]:
    """Its capture and what it printed; ProfkitError with its last words when it does not end well."""
    path = os.path.join(folder, f"{module.rpartition('.')[2]}.profkit")
    environment = traced_environment(os.environ, path, RecordingOptions(), torch="off")
    # Not the caller's folder: a file there may have the name of a module.
    command = [sys.executable, "-m", module]
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProfkitError(f"the recorded program {module} did not end within {limit_s:g} s") from None
    if done.returncode:
        words = " | ".join(line.strip() for line in done.stderr.strip().splitlines()[-3:])
        raise ProfkitError(f"the recorded program {module} ended with {done.returncode}: {words}")
    return read(path), json.loads(done.stdout.splitlines()[-1])


def compared(name: str, counts: Mapping[str, tuple[int, int]]) -> CheckResult:
    """What was made and what was recorded, by name: each count must be the same on both sides."""
    numbers = {side: {what: pair[place] for what, pair in counts.items()} for place, side in enumerate(SIDES)}
    differences = [
        f"{what}: {made:,} made, {recorded:,} recorded" for what, (made, recorded) in counts.items() if made != recorded
    ]
    if differences:
        return CheckResult(name, WRONG, "; ".join(differences), numbers)
    text = ", ".join(f"{made:,} {what}" for what, (made, _) in counts.items())
    return CheckResult(name, PROVEN, f"made and recorded: {text}", numbers)


def rows_named(capture: Capture, name: str) -> Any:
    numbers = [number for number, text in enumerate(capture.strings) if text == name]
    return np.flatnonzero(np.isin(capture.ranges.name, numbers))


def count(values: Any) -> int:
    return int(np.count_nonzero(values))


# --- Conservation ---

ConservedSums = tuple[int, int, int]
"""Attributed to rows, remainder, total."""


def check_conservation(capture: Capture) -> list[CheckResult]:
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


def check_device_conservation(capture: Capture) -> list[CheckResult]:
    """Of the GPU's: its wall clock, its launches and its memory."""
    span_ns = capture.duration_ns
    sizes = capture.memory_events.bytes
    allocated = int(sizes[(sizes > 0) & (capture.memory_events.range != NONE)].sum())
    tables = _tables(capture, DEVICES)
    times = {
        by: ((_sum(table.rows.column("exclusive_ns")), table.remainder_ns, (table.devices or 0) * span_ns), None)
        for by, table in tables.items()
    }
    made = len(capture.activities)
    launches = {
        by: ((_sum(table.rows.column("launches")), int(table.left("launches") or 0), made), None)
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


def _bytes(table: Usage) -> ConservedSums:
    attributed = _sum(table.rows.column("own_alloc_bytes"))
    return attributed, table.unattributed_alloc_bytes or 0, table.total_alloc_bytes or 0


def _judged(name: str, tables: Mapping[str, tuple[ConservedSums, int | None]], unit: str) -> CheckResult:
    """Each table's rows and remainder must make up its total, and rows what is known of them, exactly."""
    numbers = {by: dict(zip(("attributed", "remainder", "total"), sums)) for by, (sums, _) in tables.items()}
    if not any(total for (_, _, total), _ in tables.values()):
        return CheckResult(name, NOT_PROVEN, "nothing of it was recorded", numbers)
    troubles = []
    for by, ((attributed, remainder, total), known) in tables.items():
        if attributed + remainder != total:
            troubles.append(f"by {by} {attributed:,} attributed + {remainder:,} remainder is not {total:,} {unit}")
        if remainder < 0:
            troubles.append(f"by {by} the remainder is {remainder:,} {unit}")
        if known is not None and attributed != known:
            troubles.append(f"by {by} {attributed:,} attributed, {known:,} {unit} recorded in ranges")
    if troubles:
        return CheckResult(name, WRONG, "; ".join(troubles), numbers)
    (attributed, remainder, total), _ = next(iter(tables.values()))
    text = f"by {', '.join(tables)}: {attributed:,} attributed + {remainder:,} remainder = {total:,} {unit}"
    return CheckResult(name, PROVEN, text, numbers)
