"""Random captures for hypothesis: trees of ranges on several threads, spans across them, allocations."""

from __future__ import annotations

from hypothesis import strategies as st

from profkit.capture.schema import Capture, RangeKind
from tests.capture.tables import Alloc, Row, capture_of

THREADS = ("main", "pool-1", "pool-2")
NAMES = ("a", "b", "c")
LONGEST_NS = 60


@st.composite
def trees(draw: st.DrawFn, thread: str, start: int, end: int, depth: int = 0) -> list[Row]:
    """Ranges that divide an interval, some of them with ranges inside; durations of 0 occur."""
    rows: list[Row] = []
    at = start
    for _ in range(draw(st.integers(0, 3 if depth < 4 else 0))):
        begin = draw(st.integers(at, end))
        until = draw(st.integers(begin, end))
        rows.append(
            Row(
                draw(st.sampled_from(NAMES)),
                begin,
                until,
                thread,
                domain=draw(st.sampled_from([None, "d"])),
                category=draw(st.sampled_from([None, "k"])),
            )
        )
        rows += draw(trees(thread, begin, until, depth + 1))
        at = until
    return rows


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    """Trees on up to three threads of one or two processes, spans, marks and allocations."""
    threads = THREADS[: draw(st.integers(1, 3))]
    rows = [row for thread in threads for row in draw(trees(thread, 0, LONGEST_NS))]
    moments = st.integers(0, LONGEST_NS)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(moments)
        end = draw(st.integers(start, LONGEST_NS))
        rows.append(Row(draw(st.sampled_from(NAMES)), start, end, draw(st.sampled_from(threads)), RangeKind.SPAN))
    for moment in draw(st.lists(moments, max_size=2)):
        rows.append(Row("mark", moment, moment, "main", RangeKind.MARK))
    allocations = []
    for _ in range(draw(st.integers(0, 12))):
        made = draw(moments)
        freed = draw(st.none() | st.integers(made, LONGEST_NS))
        allocations.append(
            Alloc(
                made,
                draw(st.integers(1, 100)),
                freed,
                draw(st.sampled_from(threads)),
                draw(st.sampled_from(threads)) if freed is not None else None,
                is_part=draw(st.booleans()),
                is_free_known=draw(st.booleans()),
            )
        )
    processes = [threads[:1], threads[1:]] if len(threads) > 1 and draw(st.booleans()) else [threads]
    return capture_of(rows, allocations, processes=processes, span_ns=(0, LONGEST_NS))
