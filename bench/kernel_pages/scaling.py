"""How cost grows: a line through measured times along one axis, and what large fresh results cost in page faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from kernel_pages.results import Record, Store
from kernel_pages.shapes import AS_GIVEN

IRREGULAR = 0.15
"""Farther from the line than this is named."""


def scaling_section(store: Store) -> list[str]:
    """Time = constant + slope x axis, fitted to relative errors, of the best native row and of the policy's."""
    records = store.of("scaling")
    if not records:
        return []
    series: dict[tuple[str, int], list[tuple[float, Record]]] = defaultdict(list)
    for record in records:
        name, _, axis = record["name"].partition(": ")
        words = axis.rsplit(" ", 1)
        series[f"{name}, {words[0]}", record["threads"]].append((float(words[1]), record))
    explained = (
        "Time of the policy's native row against one axis, fitted as constant + slope x axis (relative errors least). "
        f"Points farther than {100 * IRREGULAR:.0f} % from the line are named, with what changes there."
    )
    lines = [
        "## Scaling",
        "",
        explained,
        "",
        "| shape, axis | threads | points | constant | slope | median distance | farthest | irregular points |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (name, threads), found in sorted(series.items()):
        lines.append(_fitted(name, threads, sorted(found, key=lambda pair: pair[0])))
    return [*lines, "", *_threads_lines(records)]


def _fitted(name: str, threads: int, points: Sequence[tuple[float, Record]]) -> str:
    points = [(x, record) for x, record in points if _row(record)]
    axis = np.array([x for x, _ in points])
    times = np.array([record["rows"][_row(record)][0] for _, record in points], np.float64)
    matrix = np.stack([1.0 / times, axis / times], axis=1)
    (constant, slope), *_ = np.linalg.lstsq(matrix, np.ones(len(points)), rcond=None)
    distance = times / np.maximum(constant + slope * axis, 1.0) - 1.0
    odd = [
        f"{x:g}: {100 * off:+.0f} % ({_why(record, points)})"
        for (x, record), off in zip(points, distance)
        if abs(off) > IRREGULAR
    ]
    return (
        f"| {name} | {threads} | {len(points)} | {constant / 1e3:.1f} µs | {slope / 1e3:.2f} µs "
        f"| {100 * np.median(np.abs(distance)):.0f} % | {100 * np.max(np.abs(distance)):.0f} % | {'; '.join(odd)} |"
    )


def _row(record: Record) -> str:
    """The policy's row where it was measured, else the best native one."""
    found = record[AS_GIVEN]
    policy = found.get("policy", "")
    return str(policy if policy in record["rows"] else found.get("native", ""))


def _why(record: Record, points: Sequence[tuple[float, Record]]) -> str:
    """What is known of a point: another kernel, page faults, or few columns for the tile."""
    row = _row(record)
    usual = max({_row(other) for _, other in points}, key=[_row(other) for _, other in points].count)
    if row != usual:
        return f"{row.removeprefix('native/')} instead of {usual.removeprefix('native/')}"
    faults = record["rows"][row][6]
    if faults:
        return f"{faults} page faults per call"
    least = min(points, key=lambda pair: pair[0])[1]
    return "smallest: blocks and tiles are not full" if record is least else "same kernel, no page faults"


def _threads_lines(records: Sequence[Record]) -> list[str]:
    """One thread's time over that of two, at the same shape."""
    times: dict[str, dict[int, float]] = defaultdict(dict)
    for record in records:
        if _row(record):
            times[record["name"]][record["threads"]] = record["rows"][_row(record)][0]
    both = {name: found[1] / found[2] for name, found in times.items() if {1, 2} <= found.keys()}
    if not both:
        return []
    worst = sorted(both, key=lambda name: both[name])[:3]
    text = ", ".join(f"{name} {both[name]:.2f}" for name in worst)
    return [f"Two threads: {np.median(list(both.values())):.2f} times faster than one (median), least {text}.", ""]


def pages_section(store: Store) -> list[str]:
    """Fresh output (section conv) beside a reused one, row by row."""
    fresh = {(record["name"], record["threads"]): record for record in store.of("conv")}
    lines = []
    for record in store.of("pages"):
        other = fresh.get((record["name"], record["threads"]))
        best = record[AS_GIVEN].get("native")
        if other is None or not best or best not in other["rows"]:
            continue
        for key in dict.fromkeys((best, *(row for row in record["rows"] if not row.startswith("native")))):
            if key in other["rows"] and key in record["rows"]:
                before, after = other["rows"][key], record["rows"][key]
                share = 100 * (1 - after[0] / before[0])
                lines.append(
                    f"| {record['name']} | {record['threads']} | {key} | {before[0] / 1e6:.3g} | {before[6] or 0} "
                    f"| {after[0] / 1e6:.3g} | {after[6] or 0} | {share:.0f} % |"
                )
    if not lines:
        return []
    explained = (
        "malloc maps results above 32 MiB anew in each call, and each of their pages is made by the system: torch pays "
        "that; tensorflow, onnxruntime and the native rows keep the memory of results that were dropped. With "
        "`--output reused` those that can write into the same memory. Measured in two runs, not interleaved."
    )
    return [
        "## Page faults of large fresh results",
        "",
        explained,
        "",
        "| shape | threads | row | fresh ms | faults | reused ms | faults | share of memory |",
        "|---|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]
