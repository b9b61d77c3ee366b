"""GPU traces with random damage: a reader gives a trace whose tables add up, or refuses; nothing else ever happens."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from profkit.attribution.account import DEVICES
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import usage_of
from profkit.capture.schema import NONE
from profkit.capture.trace_tables import launches_of
from profkit.cli import main
from profkit.errors import CaptureError
from tests.capture.importers.foreign_traces import KinetoTrace, NsightExport, opened_trace

FUZZING = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUES: list[Any] = [
    None, True, -1, 0, 3, 1.5, -7.25, 1e300, 10**18, -(10**18), 10**30, "", "text", "12", "NaN", [], {}, [1, 2, 3],
    {"device": -1}, "nn.Module: x", "Memcpy DtoH (Device -> Pinned)", "kernel", "cpu_op", "X", "i", "[memory]",
]  # fmt: skip


def kineto() -> KinetoTrace:
    made = KinetoTrace(deviceProperties=[{"id": 0, "name": "GPU"}], baseTimeNanoseconds=1000)
    made.annotation("ProfilerStep#1", 0, 900).annotation("FSDP::pre_forward (a)", 0, 100)
    made.operator("aten::mm", 100, 200, sequence=1).call(110, 120, 1).kernel(150, 400, 1, "sgemm_128x64_nn")
    made.annotation("FSDP::post_forward (a)", 300, 350).call(310, 320, 2, "cudaMemcpyAsync").copy(380, 500, 2, 64)
    made.operator("MmBackward0", 500, 600, sequence=1, tid=8).call(510, 520, 3, tid=8).kernel(530, 700, 3, device=1)
    return made.memory(130, 0xA0, 512).memory(550, 0xA0, -512)


def nsight() -> NsightExport:
    made = NsightExport().range("block", 0, 900).range("aten::mm, seq = 1, op_id = 3", 100, 200)
    made.call(110, 120, 1).kernel(150, 400, 1, "sgemm_128x64_nn").call(310, 320, 2).copy(380, 500, 2, 64)
    return made.memory(130, 0xA0, 512).memory(550, 0xA0, None, is_free=True)


def check(path: Path) -> None:
    """It is read and every table of it adds up, or it is refused with a sentence."""
    try:
        trace = opened_trace(path)
    except CaptureError:
        return
    for by in groupings_on(DEVICES):
        usage = usage_of(trace, by, clock=DEVICES)
        assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
        assert sum((usage.parts or {}).values()) == usage.wall_ns


@given(data=st.data())
@FUZZING
def test_events_with_wrong_values(data: st.DataObject, tmp_path: Path) -> None:
    document = json.loads(kineto().text())
    for _ in range(data.draw(st.integers(1, 6))):
        place: Any = data.draw(st.sampled_from([*document["traceEvents"], document]))
        if isinstance(place, dict) and isinstance(place.get("args"), dict) and data.draw(st.booleans()):
            place = place["args"]
        if isinstance(place, dict) and place:
            place[data.draw(st.sampled_from(sorted(place)))] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
        if not isinstance(document.get("traceEvents"), list):
            break
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document), encoding="utf-8")

    check(path)


@given(place=st.integers(0, 10**6), sign=st.integers(0, 255), is_packed=st.booleans())
@FUZZING
def test_json_with_a_wrong_byte(place: int, sign: int, is_packed: bool, tmp_path: Path) -> None:
    data = bytearray(gzip.compress(kineto().text().encode()) if is_packed else kineto().text().encode())
    data[place % len(data)] = sign
    path = tmp_path / "t.json"
    path.write_bytes(bytes(data))

    check(path)


@given(places=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 255)), min_size=1, max_size=8))
@example(places=[(3515, 128)])  # a definition that is no UTF-8, quoted in SQLite's message
@FUZZING
def test_databases_with_wrong_bytes(places: list[tuple[int, int]], tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    path.unlink(missing_ok=True)
    data = bytearray(nsight().write(path).read_bytes())
    for place, value in places:
        data[100 + place % (len(data) - 100)] = value  # behind the header, which tells what the file is
    path.write_bytes(bytes(data))

    check(path)


@given(data=st.data())
@FUZZING
def test_databases_with_wrong_values(data: st.DataObject, tmp_path: Path) -> None:
    export = nsight()
    values = st.sampled_from([None, "text", 1.5, b"\xff", -1, 0, 7, 1 << 40, 1 << 62, -(1 << 63), (1 << 63) - 1])
    for _ in range(data.draw(st.integers(1, 6))):
        row = data.draw(st.sampled_from([row for rows in export.rows.values() for row in rows]))
        row[data.draw(st.sampled_from(sorted(row)))] = data.draw(values)
    path = tmp_path / "r.sqlite"
    path.unlink(missing_ok=True)

    check(export.write(path))


@pytest.mark.parametrize("made", [kineto().text().encode(), gzip.compress(kineto().text().encode())])
def test_every_beginning_of_a_file(made: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for length in range(0, len(made), 17):
        path.write_bytes(made[:length])

        check(path)


def slow_launch(row: int, activities: dict[str, Any], calls: dict[str, Any]) -> int:
    """What launches_of gives for one activity, as its text says."""
    wanted = activities["process"][row]
    same = [call for call, number in enumerate(calls["correlation"]) if number == activities["correlation"][row] > 0]
    if wanted != NONE:
        return next((call for call in same if calls["process"][call] == wanted), NONE)
    same = [call for call in same if calls["start_ns"][call] <= activities["end_ns"][row]]
    same = [call for call in same if calls["external"][call] == activities["external"][row]]
    return same[0] if len({calls["process"][call] for call in same}) == 1 else NONE


@given(data=st.data())
@FUZZING
def test_launches_are_those_that_the_rule_names(data: st.DataObject) -> None:
    few = st.integers(0, 2)
    column = st.lists(few, min_size=1, max_size=12)
    starts = sorted(data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=12)))
    calls: dict[str, Any] = {"start_ns": np.array(starts)}
    for name in ("correlation", "process", "external"):
        calls[name] = np.array([data.draw(few) for _ in starts])
    ends = data.draw(column)
    activities: dict[str, Any] = {"end_ns": 10 * np.array(ends)}
    for name, values in (("correlation", few), ("external", few), ("process", st.integers(NONE, 2))):
        activities[name] = np.array([data.draw(values) for _ in ends])

    found = launches_of(activities, calls)

    assert found.tolist() == [slow_launch(row, activities, calls) for row in range(len(ends))]


def test_paths_that_are_much_longer_than_the_trace_are_refused(tmp_path: Path) -> None:
    made = KinetoTrace()
    for depth in range(3000):
        made.operator(f"operator {depth}", depth, 100_000 - depth)
    path = str(made.write(tmp_path / "t.json"))

    assert main(["report", path, "--by", "name", "--clock", "threads"]) == 0
    for words in (["report", path, "--by", "path"], ["export", path, "--folded", str(tmp_path / "folded")]):
        assert main(words) == 1

    assert list(tmp_path.iterdir()) == [Path(path)]
