"""GPU traces with random damage: a reader gives a trace whose tables add up, or refuses; nothing else ever happens."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from profkit.attribution.account import DEVICES
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import usage_of
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
