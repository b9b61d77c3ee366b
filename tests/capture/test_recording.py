"""Recordings of networks and their files: what follows from times and threads, what is kept, what is refused."""

from __future__ import annotations

import contextlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.network_capture import MAGIC, SCHEMA, load_network_capture, save_network_capture
from profkit.capture.recording import NUMBERS, TEXTS, Recording, SpanLog, load, save
from profkit.capture.schema import NONE, Level
from profkit.errors import CaptureError
from tests.capture.network_captures import Event, layer, network_capture, op, pool, primitive, recording_of, runtime


def parents(*events: Event) -> list[str | None]:
    """The name of each event's parent."""
    recording = recording_of(*events)
    names = recording.text("name")
    return [None if row == NONE else names[row] for row in recording.spans["parent"].tolist()]


def test_what_was_not_given_is_not_observable_and_never_zero() -> None:
    recording = recording_of(op("conv", 10, 20))

    given = {"level", "step", "thread", "start_ns", "end_ns", "name", "type"}
    for column in {*NUMBERS, *TEXTS} - given:
        assert recording.spans[column].tolist() == [NONE], column
    assert recording.text("layer") == [None]


def test_a_parent_is_the_innermost_span_around_on_the_same_thread() -> None:
    found = parents(
        layer("conv1", 0, 90),
        op("convolution", 10, 80),
        primitive("jit", 20, 70),
        op("bias", 80, 85),
        op("elsewhere", 20, 30, "worker"),
        op("later", 90, 95),
    )

    assert found == [None, "conv1", "convolution", "conv1", None, None]


def test_spans_of_equal_times_nest_by_their_level() -> None:
    assert parents(op("inner", 10, 20), layer("outer", 10, 20)) == ["outer", None]


def test_spans_that_overlap_without_nesting_are_no_parents_of_each_other() -> None:
    assert parents(op("a", 0, 10), op("b", 5, 15)) == [None, None]


def test_pool_spans_are_nobody_s_parent() -> None:
    assert parents(pool(0, 100, "worker"), op("inside", 10, 20, "worker")) == [None, None]


def test_a_span_belongs_to_the_step_in_which_it_began() -> None:
    recording = recording_of(
        op("before", 0, 5), op("first", 10, 60), op("between", 50, 55), op("second", 70, 90), steps=[(10, 50), (60, 90)]
    )

    assert recording.spans["step"].tolist() == [NONE, 0, NONE, 1]


def test_an_unknown_column_is_refused_by_name() -> None:
    log = SpanLog("torch", "by hand")

    with pytest.raises(TypeError, match="no column colour"):
        log.span(Level.OPERATOR, "conv", 0, 1, colour="red")


def test_a_thread_keeps_its_number() -> None:
    log = SpanLog("torch", "by hand")

    numbers = [log.thread(7), log.thread(8, "pool"), log.thread(7)]

    assert numbers == [0, 1, 0]
    assert [thread["name"] for thread in log.finish().threads] == ["main", "pool"]


def equal(one: Recording, other: Recording) -> bool:
    tables = [(getattr(one, name), getattr(other, name)) for name in ("spans", "steps", "allocations")]
    about = [(getattr(each, name) for name in ("framework", "source", "measures", "strings", "facts", "clock_error_ns"))
             for each in (one, other)]  # fmt: skip
    return (
        all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in tables)
        and all(a == b for a, b in zip(*about))
        and [dict(thread) for thread in one.threads] == [dict(thread) for thread in other.threads]
    )


def some_recording() -> Recording:
    log = SpanLog("tensorflow", "xplane", "time", "memory")
    log.facts["notes"] = ["Grappler fuses µs"]
    log.clock_error_ns = 180
    log.step(0, 100)
    row = log.span(Level.OPERATOR, "conv1/Conv2D", 10, 90, log.thread(5), type="Conv2D", requested_bytes=0)
    log.allocation(row, 20, 0x7000, 512)
    log.allocation(row, 30, 0x7000, -512)
    return log.finish()


def test_a_saved_recording_is_read_back_whole(tmp_path: Path) -> None:
    recording = some_recording()

    save(recording, tmp_path / "one")

    assert equal(load(tmp_path / "one"), recording)


def test_a_saved_capture_is_read_back_whole(tmp_path: Path) -> None:
    # Twelve, because folder 10 must not come before folder 2.
    recordings = [recording_of(runtime(f"run {number}", 0, number)) for number in range(12)]
    capture = network_capture(some_recording(), *recordings, notes=["a note"], learning={"precision": 0.5})
    path = tmp_path / "run.profkit"

    save_network_capture(capture, path)

    read = load_network_capture(path)
    assert path.read_bytes().startswith(MAGIC)
    assert {**vars(read), "recordings": ()} == {**vars(capture), "recordings": ()}
    assert all(equal(a, b) for a, b in zip(read.recordings, capture.recordings, strict=True))


def test_the_pass_for_a_measure_is_found() -> None:
    time, memory = (recording_of(measures=[measure]) for measure in ("time", "memory"))
    capture = network_capture(time, memory)

    assert (capture.recording("time"), capture.recording("memory"), capture.recording("primitives")) == (
        time,
        memory,
        None,
    )


def rewritten(path: Path, schema: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("capture.json", json.dumps({"schema": schema}))


def test_a_file_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    rewritten(tmp_path / "new.profkit", "profkit.network/9")

    with pytest.raises(CaptureError, match=f"'profkit.network/9', this profkit reads '{SCHEMA}': record it again"):
        load_network_capture(tmp_path / "new.profkit")


@pytest.mark.parametrize("content", [b"", b"PROFKIT\n", b"PK\x03\x04 cut", None])
def test_a_file_that_is_no_capture_is_an_error_and_no_traceback(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "wrong.profkit"
    if content is None:
        rewritten(path, SCHEMA)  # right schema, nothing else
    else:
        path.write_bytes(content)

    with pytest.raises(CaptureError, match=r"wrong\.profkit is not a capture of a network, or is damaged"):
        load_network_capture(path)


def test_a_damaged_file_is_an_error_or_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "run.profkit"
    capture = network_capture(some_recording())
    save_network_capture(capture, path)
    whole = path.read_bytes()

    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 0xFF
        path.write_bytes(data)
        with contextlib.suppress(CaptureError):
            # A date or a permission of an entry changes nothing that is read.
            read = load_network_capture(path)
            assert all(equal(a, b) for a, b in zip(read.recordings, capture.recordings, strict=True))


@pytest.mark.parametrize(
    ("column", "values"),
    [("thread", [3]), ("thread", [-1]), ("parent", [9]), ("type", [100]), ("step", [-2]), ("level", [1, 2])],
)
def test_columns_that_do_not_fit_together_are_refused(tmp_path: Path, column: str, values: list[int]) -> None:
    recording = some_recording()
    spans = {**recording.spans, column: np.array(values, np.int32)}
    save_network_capture(network_capture(replace(recording, spans=spans)), tmp_path / "run.profkit")

    with pytest.raises(CaptureError, match=f"damaged: (column {column}|a span has no {column})"):
        load_network_capture(tmp_path / "run.profkit")
