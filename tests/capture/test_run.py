"""Passes over networks and files of runs: what follows from times and threads, what is kept, what is refused."""

from __future__ import annotations

import contextlib
import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.event_log import EventLog, EventThread, threads_of, with_ranges
from profkit.capture.run import MAGIC, SCHEMA, joined_runs, load_run, save_run, side_by_side
from profkit.capture.schema import NONE, TABLES, Capture, Level, RangeKind
from profkit.errors import CaptureError
from tests.capture.network_captures import Event, layer, network_capture, op, pool, primitive, recording_of, runtime


def test_what_was_not_given_is_not_observable_and_never_zero() -> None:
    ranges = recording_of(op("conv", 10, 20)).ranges

    given = {"level", "step", "thread", "start_ns", "end_ns", "name", "type"}
    derived = {"kind", "end_thread", "depth"}
    assert ranges.columns().keys() - {"parent"} == given | derived
    assert ranges.parent.tolist() == [NONE]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [layer("a", 0, 90), op("b", 10, 80), primitive("c", 20, 70), op("d", 80, 85), op("e", 20, 30, "worker")],
            {"a": None, "b": "a", "c": "b", "d": "a", "e": None},
        ),
        ([layer("a", 0, 90), op("later", 90, 95)], {"a": None, "later": None}),
        # Of equal times the level decides; spans that overlap without nesting, and those of pools, are no parents.
        ([op("inner", 10, 20), layer("outer", 10, 20)], {"inner": "outer", "outer": None}),
        ([op("a", 0, 10), op("b", 5, 15)], {"a": None, "b": None}),
        ([pool(0, 100, "worker"), op("inside", 10, 20, "worker")], {"pool": None, "inside": None}),
    ],
)
def test_a_parent_is_the_innermost_span_around_on_the_same_thread(
    events: list[Event], expected: dict[str, str | None]
) -> None:
    capture = recording_of(*events)

    names = capture.texts(capture.ranges.name)
    above = [None if row == NONE else names[row] for row in capture.ranges.parent.tolist()]
    assert dict(zip(names, above)) == expected


def test_a_span_belongs_to_the_step_in_which_it_began() -> None:
    capture = recording_of(
        op("before", 0, 5), op("first", 10, 60), op("between", 50, 55), op("second", 70, 90), steps=[(10, 50), (60, 90)]
    )

    assert capture.ranges.step.tolist() == [NONE, 0, NONE, 1]


def test_rows_are_in_the_order_of_a_capture_whatever_the_order_of_the_events() -> None:
    log = EventLog("torch", "by hand", "memory")
    log.step(0, 100)
    main, helper = log.thread(1), log.thread(2, "pool")
    late = log.range(Level.PRIMITIVE, "late", 60, 70, main)
    log.range(Level.POOL, "helps", 62, 68, helper, owner=late)
    outer = log.range(Level.OPERATOR, "outer", 50, 90, main)
    log.range(Level.OPERATOR, "equal", 50, 90, main, parent=outer)
    log.memory(late, 65, 0x10, 64)
    log.memory(NONE, 20, 0x20, 32)

    capture = log.finish()

    ranges, events = capture.ranges, capture.memory_events
    names = capture.texts(ranges.name)
    assert names == ["outer", "equal", "late", "helps"]
    assert ranges.parent.tolist() == [NONE, 0, 1, NONE]
    assert ranges.depth.tolist() == [0, 1, 2, 0]
    assert ranges.owner.tolist() == [NONE, NONE, NONE, 2]
    assert ranges.kind.tolist() == [RangeKind.RANGE] * 3 + [RangeKind.SPAN]
    assert list(zip(events.time_ns.tolist(), events.range.tolist(), events.bytes.tolist())) == [
        (20, NONE, 32),
        (65, 2, 64),
    ]


def test_ranges_may_be_added_to_a_finished_capture() -> None:
    capture = recording_of(op("outer", 10, 90, layer="conv1"), op("later", 95, 98), facts={"notes": ["a"]})
    layer_text = int(capture.ranges.layer[0])
    inside = {"name": "jit", "level": Level.PRIMITIVE, "start_ns": 20, "end_ns": 30, "thread": 0, "layer": layer_text}
    helper = {"name": "pool", "level": Level.POOL, "start_ns": 21, "end_ns": 29, "thread": 1, "owner": 0}

    grown = with_ranges(capture, [inside, helper], [*threads_of(capture), EventThread(7, "pool", "pool 1")], lost=2)

    assert grown.texts(grown.ranges.name) == ["outer", "jit", "later", "pool"]
    assert grown.texts(grown.ranges.layer) == ["conv1", "conv1", None, None]
    assert grown.ranges.parent.tolist() == [NONE, 0, NONE, NONE]
    assert grown.ranges.owner.tolist() == [NONE, NONE, NONE, 0]
    assert grown.texts(grown.threads.role) == ["main", "pool"]
    assert (grown.losses.records, grown.facts, grown.measures) == (2, {"notes": ["a"]}, capture.measures)


def test_passes_side_by_side_keep_their_rows() -> None:
    time = recording_of(op("a", 10, 20), op("b", 30, 40, "other"), measures=["time"])
    memory = recording_of(op("c", 210, 240), primitive("d", 215, 220), steps=[(200, 250)], measures=["memory"])

    whole = side_by_side([time, memory])

    ranges = whole.ranges
    assert whole.texts(ranges.name) == ["a", "b", "c", "d"]
    assert ranges.parent.tolist() == [NONE, NONE, NONE, 2]
    assert whole.threads.process.tolist() == [0, 0, 1]
    assert ranges.thread.tolist() == [0, 1, 2, 2]
    assert [whole.text(whole.threads.name[row]) for row in ranges.thread] == ["main", "other", "main", "main"]
    assert (ranges.step.tolist(), whole.steps.process.tolist()) == ([0, 0, 1, 1], [0, 1])
    assert whole.steps.start_ns.tolist() == [0, 200]
    assert whole.measures == ("time", "memory")


def test_an_unknown_column_is_refused_by_name() -> None:
    log = EventLog("torch", "by hand")

    with pytest.raises(TypeError, match="no column flavour"):
        log.range(Level.OPERATOR, "conv", 0, 1, flavour="red")


def test_a_thread_keeps_its_number() -> None:
    log = EventLog("torch", "by hand")

    numbers = [log.thread(7), log.thread(8, "pool"), log.thread(7)]

    assert numbers == [0, 1, 0]
    assert [thread.name for thread in threads_of(log.finish())] == ["main", "pool"]


def equal(one: Capture, other: Capture) -> bool:
    about = [item.name for item in fields(Capture) if item.name not in TABLES and item.name != "path"]
    if any(getattr(one, name) != getattr(other, name) for name in about):
        return False
    tables = [(getattr(one, name).columns(), getattr(other, name).columns()) for name in TABLES]
    return all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in tables)


def some_recording() -> Capture:
    log = EventLog("tensorflow", "xplane", "time", "memory")
    log.facts["notes"] = ["Grappler fuses µs"]
    log.about.clock_error_ns = 180
    log.step(0, 100)
    row = log.range(Level.OPERATOR, "conv1/Conv2D", 10, 90, log.thread(5), type="Conv2D", requested_bytes=0)
    log.memory(row, 20, 0x7000, 512)
    log.memory(row, 30, 0x7000, -512)
    return log.finish()


def test_a_saved_capture_is_read_back_whole(tmp_path: Path) -> None:
    # Twelve, because folder 10 must not come before folder 2.
    recordings = [recording_of(runtime(f"run {number}", 0, number)) for number in range(12)]
    capture = network_capture(some_recording(), *recordings, notes=["a note"], learning={"test_error": 0.5})
    path = tmp_path / "run.profkit"

    save_run(capture, path)

    read = load_run(path)
    assert path.read_bytes().startswith(MAGIC)
    assert {**vars(read), "captures": ()} == {**vars(capture), "captures": ()}
    assert all(equal(a, b) for a, b in zip(read.captures, capture.captures, strict=True))


def test_the_pass_for_a_measure_is_found() -> None:
    run = network_capture(*(recording_of(measures=[measure]) for measure in ("time", "memory")))

    assert [run.capture(measure) for measure in ("time", "memory", "primitives")] == [*run.captures, None]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not the run of a network, or is damaged"),
        (b"PROFKIT\n", "is not the run of a network, or is damaged"),
        (b"PK\x03\x04 cut", "is not the run of a network, or is damaged"),
        (SCHEMA, "is not the run of a network, or is damaged"),  # and nothing else
        ("profkit.run/9", f"'profkit.run/9', this profkit reads '{SCHEMA}': record it again"),
    ],
)
def test_a_file_that_is_no_run_or_of_another_version_is_refused(
    tmp_path: Path, content: bytes | str, said: str
) -> None:
    path = tmp_path / "wrong.profkit"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("run.json", json.dumps({"schema": content}))

    with pytest.raises(CaptureError, match=rf"wrong\.profkit.*{said}"):
        load_run(path)


def test_a_damaged_file_is_an_error_or_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "run.profkit"
    capture = network_capture(some_recording())
    save_run(capture, path)
    whole = path.read_bytes()

    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 0xFF
        path.write_bytes(data)
        with contextlib.suppress(CaptureError):
            # A date or a permission of an entry changes nothing that is read.
            read = load_run(path)
            assert all(equal(a, b) for a, b in zip(read.captures, capture.captures, strict=True))


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        *(("thread", [number, 0], "damaged: (column thread|a range has no thread)") for number in (3, -1)),
        ("parent", [9, -1], "damaged: (column parent|a range has no parent|a range precedes its)"),
        ("parent", [0, -1], "damaged: (column parent|a range has no parent|a range precedes its)"),
        ("type", [100, 0], "damaged: column type"),
        ("step", [-2, 0], "damaged: column step"),
        ("start_ns", [15, 12], "damaged: .*not in the order"),
        ("level", [3, 6], "damaged: .*column level of ranges has a value of an unknown kind"),
        ("level", [3, -2], "damaged: .*column level of ranges has a value of an unknown kind"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    tmp_path: Path, column: str, values: list[int], said: str
) -> None:
    capture = recording_of(op("a", 10, 20), op("b", 30, 90))
    types = {"parent": np.dtype(np.int32)}
    wrong = np.array(values, types.get(column, capture.ranges[column].dtype))
    save_run(network_capture(replace(capture, ranges=replace(capture.ranges, **{column: wrong}))), tmp_path / "run")

    with pytest.raises(CaptureError, match=said):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("column", "content", "reason"),
    [
        ("level", bytes([Level.OPERATOR] * 2), "the columns of captures/0/ranges have 1 and 2 rows"),
        ("level", b"", "have 0 and 1 rows"),
        ("level", bytes([Level.OPERATOR]), ""),
        ("start_ns", bytes(7), "captures/0/ranges has no column 'start_ns' of int64"),
    ],
)
def test_a_column_has_as_many_rows_as_the_others(tmp_path: Path, column: str, content: bytes, reason: str) -> None:
    path = tmp_path / "run.profkit"
    save_run(network_capture(some_recording()), path)
    with zipfile.ZipFile(path) as archive:
        entries = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in {**entries, f"captures/0/ranges/{column}": content}.items():
            archive.writestr(each, data)

    with pytest.raises(CaptureError, match=reason) if reason else contextlib.nullcontext():
        load_run(path)


def test_runs_of_several_processes_are_joined_pass_by_pass() -> None:
    def one(begin: int, peak: int) -> Capture:
        event = op("conv", begin + 10, begin + 60, requested_bytes=8)
        facts = {"peak_bytes": peak, "notes": ["said once"]}
        return recording_of(event, steps=[(begin, begin + 100)], facts=facts)

    runs = [
        network_capture(
            one(begin, peak),
            step_ns=[90, 91],
            processes=[{"steps": 2, "recorded": {"time": 1}, "captures": 1, "machine": {}}],
        )
        for begin, peak in ((0, 5), (1000, 7), (2000, 6))
    ]

    joined = joined_runs(runs)

    time = joined.capture("time")
    assert time is not None and time is joined.capture("memory")
    assert time.steps.start_ns.tolist() == [0, 1000, 2000]
    assert time.ranges.step.tolist() == [0, 1, 2] and len(time.processes) == 3
    assert (time.facts["peak_bytes"], time.facts["notes"]) == (7, ["said once"])
    assert joined.process_steps() == [[90, 91]] * 3
    assert joined.process_recorded() == {"time": [[100]] * 3}
    assert len(runs[0].processes) == 1  # the runs stay as they are


@pytest.mark.parametrize("field", ["steps", "captures"])
@pytest.mark.parametrize("count", [-1, 0, 7])
def test_processes_that_do_not_add_up_are_damage(field: str, count: int, tmp_path: Path) -> None:
    process = {"steps": 6, "recorded": {"time": 1}, "captures": 1, "machine": {}}
    save_run(network_capture(recording_of(op("conv", 0, 10)), processes=[process]), tmp_path / "good")
    save_run(network_capture(recording_of(op("conv", 0, 10)), processes=[{**process, field: count}]), tmp_path / "bad")

    assert load_run(tmp_path / "good").processes == [process]
    with pytest.raises(CaptureError, match="processes that do not add up"):
        load_run(tmp_path / "bad")
