"""Random trees of ranges with their memory: written as a file, they are read back exactly as they were made."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profkit.capture.reading import read
from profkit.capture.schema import Capture, RangeKind
from tests.capture.builders import CaptureBuilder
from tests.capture.tables import Alloc, Row, capture_of

NAMES = st.text(min_size=0, max_size=12)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, str, int, Any]]:
    """What two threads do: (thread, action, time, detail), times ascending, ranges balanced."""
    actions: list[tuple[str, str, int, Any]] = []
    depths = {"main": 0, "worker": 0}
    live: list[int] = []
    now, blocks = 0, 0
    for _ in range(draw(st.integers(0, 40))):
        now += draw(st.integers(1, 1 << 40) | st.integers(1, 3))
        thread = draw(st.sampled_from(["main", "worker"]))
        action = draw(st.sampled_from(["begin", "begin", "end", "mark", "alloc", "free", "cut", "part"]))
        detail: Any = None
        if action == "begin":
            depths[thread] += 1
            payload = draw(st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False))
            detail = (draw(NAMES), draw(st.none() | NAMES), draw(st.none() | NAMES), payload)
        elif action == "mark":
            detail = draw(NAMES)
        elif action == "alloc":
            blocks += 1
            detail = (blocks * 0x1000, draw(st.integers(0, 2**40)))
            live.append(detail[0])
        elif action == "free":
            if not live:
                continue
            detail = live.pop(draw(st.integers(0, len(live) - 1)))
        elif action == "end":
            if depths[thread] == 0:
                continue
            depths[thread] -= 1
        actions.append((thread, action, now, detail))
    for thread, depth in depths.items():
        for _ in range(depth):
            now += 1
            actions.append((thread, "end", now, None))
    return actions


def as_file(script: list[tuple[str, str, int, Any]], path: Path) -> Capture:
    builder = CaptureBuilder().thread("main").thread("worker")
    for thread, action, time, detail in script:
        builder.thread(thread)
        if action == "begin":
            name, domain, category, payload = detail
            builder.begin(time, name, domain=domain, category=category, payload=payload)
        elif action == "end":
            builder.end(time)
        elif action == "mark":
            builder.mark(time, detail)
        elif action == "alloc":
            builder.alloc(time, *detail)
        elif action == "free":
            builder.free(time, detail)
        elif action == "cut":
            builder.cut()
        else:
            builder.part()
    return read(builder.write(path))


def as_tables(script: list[tuple[str, str, int, Any]]) -> Capture:
    """The same by following the script, without a file."""
    rows: list[Row] = []
    allocations: dict[int, Alloc] = {}
    stacks: dict[str, list[tuple[int, Any]]] = {"main": [], "worker": []}
    for thread, action, time, detail in script:
        if action == "begin":
            stacks[thread].append((time, detail))
        elif action == "end":
            start, (name, domain, category, payload) = stacks[thread].pop()
            rows.append(Row(name, start, time, thread, domain=domain, category=category, payload=payload))
        elif action == "mark":
            rows.append(Row(detail, time, time, thread, kind=RangeKind.MARK))
        elif action == "alloc":
            allocations[detail[0]] = Alloc(time, detail[1], thread=thread, address=detail[0])
        elif action == "free":
            made = allocations[detail]
            allocations[detail] = Alloc(made.time_ns, made.bytes, time, made.thread, free_thread=thread, address=detail)
    return capture_of(rows, list(allocations.values()), threads=["main", "worker"])


def texts(capture: Capture, column: Any) -> list[str | None]:
    return [None if number == -1 else capture.strings[number] for number in column]


@given(script=scripts())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_trees_are_read_back_exactly(tmp_path: Path, script: list[tuple[str, str, int, Any]]) -> None:
    expected = as_tables(script)

    capture = as_file(script, tmp_path / "tree.profkit")

    for table in ("ranges", "allocations"):
        made, wanted = getattr(capture, table), getattr(expected, table)
        for field in fields(made):
            column, other = getattr(made, field.name), getattr(wanted, field.name)
            assert column.dtype == other.dtype, field.name
            if field.name in ("name", "domain", "category"):
                assert texts(capture, column) == texts(expected, other), field.name
            else:
                assert column.tolist() == other.tolist(), field.name
    assert capture.warnings == ()
    assert texts(capture, capture.threads.name) == ["main", "worker"]


@pytest.mark.parametrize("ticks_per_ns", [0.37, 2.993, 3.5])
def test_with_another_clock_times_are_right_to_the_nanosecond(tmp_path: Path, ticks_per_ns: float) -> None:
    builder = CaptureBuilder(ticks_per_ns=ticks_per_ns)
    times = np.cumsum(np.arange(1, 2000) * 1_000_003)
    for time in times:
        builder.mark(int(time), "m")

    capture = read(builder.write(tmp_path / "clock.profkit"))

    # A tick below 1 GHz is longer than a nanosecond: the time is known to half a tick.
    assert np.abs(capture.ranges.start_ns - times).max() <= 1 + 0.5 / ticks_per_ns
