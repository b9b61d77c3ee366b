"""Captures that have everything a trace can show, and large random ones, as tables."""

from __future__ import annotations

import random
from collections.abc import Iterator

from profkit.capture.schema import Capture, RangeKind, Source
from tests.capture.tables import Alloc, Row, capture_of

AWKWARD_NAME = 'quotes " \\ \t\n\x01\x7f ü 漢 🦉 </script>'


def everything() -> Capture:
    """Two processes, nesting, spans that overlap, marks, payloads, colours, open ranges, memory and its release."""
    return capture_of(
        [
            Row("step", 100, 9_000, source=Source.PROFKIT),
            Row("load", 200, 4_000, domain="data", category="input", payload=-3, colour=0xFF00FF00),
            Row("seen", 300, 300, kind=RangeKind.MARK, payload=2.5),
            Row("train", 5_000, 8_000, faults=(1, 2, 3, 4), source=Source.ITT),
            Row("copy", 150, 5_000, kind=RangeKind.SPAN),
            Row("copy", 160, 3_000, kind=RangeKind.SPAN, end_thread="worker"),
            Row("copy", 3_500, 3_600, kind=RangeKind.SPAN),
            Row(AWKWARD_NAME, 1_000, 2_000, thread="worker", payload=2**63 + 5),
            Row("left open", 500, 9_500, thread="child", is_open=True),
        ],
        [
            Alloc(250, 4_096, 6_000),
            Alloc(260, 100),
            Alloc(1_500, 500, 5_500, thread="worker", free_thread="main"),
            Alloc(600, 70, 700, thread="child"),
        ],
        processes=[["main", "worker"], ["child"]],
        samples=[(0, 10_000), (5_000, 20_000)],
        warnings=["process 2000 was killed"],
    )


def random_capture(seed: int, threads: int = 3, ranges_per_thread: int = 400) -> Capture:
    """Trees of ranges with spans and marks between; all times differ, so that parents are beyond doubt."""
    chance = random.Random(seed)
    rows = []
    for thread in range(threads):
        clock = iter(range(0, 1 << 40, 7))
        left = [ranges_per_thread]
        while left[0] > 0:
            rows += list(_tree(chance, clock, f"thread {thread}", left, 0))
    return capture_of(rows)


def _tree(chance: random.Random, clock: Iterator[int], thread: str, left: list[int], depth: int) -> Iterator[Row]:
    left[0] -= 1
    start = next(clock)
    for _ in range(chance.randrange(4) if depth < 8 and left[0] > 0 else 0):
        kind = chance.choices((RangeKind.RANGE, RangeKind.SPAN, RangeKind.MARK), (6, 2, 1))[0]
        if kind == RangeKind.RANGE:
            yield from _tree(chance, clock, thread, left, depth + 1)
        else:
            at = next(clock)
            end = at + 3 + 7 * chance.randrange(60) if kind == RangeKind.SPAN else at
            yield Row(f"{kind.name} {at}", at, end, thread=thread, kind=kind)
    yield Row(f"range {start}", start, next(clock), thread=thread)
