"""The viewers must be able to fail: broken traces are refused or flagged, a sound one is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.files import write_perfetto
from tests.capture.tables import Row, capture_of
from tests.viewers.trace_viewers import load_with_catapult, load_with_trace_processor


def event(**changes: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "name": "a", **changes}


def json_trace(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def refused(load: Callable[[Path], object], path: Path, reason: str | None = None) -> None:
    with pytest.raises(AssertionError, match=reason):
        load(path)


def test_a_sound_trace_passes_both(tmp_path: Path) -> None:
    path = json_trace(tmp_path, event(), event(ts=2, dur=1))

    assert load_with_trace_processor(path).slices == 2
    assert load_with_catapult(path)["processes"]


def test_json_cut_short_is_refused_by_both(tmp_path: Path) -> None:
    path = json_trace(tmp_path, event(), event(ts=2, dur=1))
    path.write_text(path.read_text()[:-20])

    refused(load_with_trace_processor, path, "incomplete")
    refused(load_with_catapult, path, "JSON")


@pytest.mark.parametrize(
    "broken",
    [event(ts=3, dur=9), event(ts="abc"), event(dur=-3), event(ph="B")],
    ids=["overlaps on its thread", "no time", "negative duration", "no end"],
)
def test_a_slice_that_cannot_be_is_flagged(broken: dict[str, Any], tmp_path: Path) -> None:
    refused(load_with_trace_processor, json_trace(tmp_path, event(), broken))


def test_an_end_without_a_begin_is_warned_of_by_catapult(tmp_path: Path) -> None:
    refused(load_with_catapult, json_trace(tmp_path, event(), event(ph="E", ts=9)))


def test_a_corrupted_protobuf_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    write_perfetto(trace_content(capture_of([Row(f"r{i}", 10 * i, 10 * i + 5) for i in range(50)])), path)
    load_with_trace_processor(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = b"\xff" * 40

    path.write_bytes(content)

    refused(load_with_trace_processor, path)


def test_packets_without_their_sequence_state_are_missing_from_the_count(tmp_path: Path) -> None:
    path = tmp_path / "trace.pftrace"
    write_perfetto(trace_content(capture_of([Row("only", 10, 20)])), path)
    before = load_with_trace_processor(path).slices
    content = path.read_bytes()
    # The flags of the sequence's first packet (field 13): "state cleared" is taken back.
    assert content.count(b"\x68\x01") == 1

    path.write_bytes(content.replace(b"\x68\x01", b"\x68\x02"))

    # The processor says nothing about it: only exact counts show such a loss.
    assert load_with_trace_processor(path).slices == before - 1
