"""Every clock of every source adds up; and a metric is one declaration."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from profkit.attribution.account import DEVICES, STEPS, THREADS, account, clocks_of
from profkit.attribution.aggregation import usage
from profkit.attribution.grouping import groupings_of, groupings_on
from profkit.attribution.metrics import COUNT, METRICS, NUMBER, SUM, Metric
from profkit.attribution.passes import usage_of
from profkit.capture.reading import read
from profkit.capture.schema import Capture
from profkit.errors import UsageError
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import LeNet
from tests.attribution.device.random_traces import device_traces
from tests.attribution.random_captures import captures
from tests.capture.account_checks import assert_adds_up
from tests.capture.builders import CaptureBuilder
from tests.capture.importers.foreign_traces import by_real_file, opened_trace, real_trace
from tests.capture.mixed_captures import mixed_capture
from tests.capture.tables import Row, capture_of
from tests.commands.traced_programs import traced
from tests.support.typed import Typed

PROGRAM = """
import threading, profkit
def work():
    for _ in range(3):
        with profkit.scope("outer"):
            with profkit.scope("inner"):
                kept = bytearray(100_000)
thread = threading.Thread(target=work)
thread.start()
work()
thread.join()
"""
IN_QUICK_TIER = ("native", "numpy")  # the sources of the others have the same check in tests/frameworks/events


def test_a_traced_program_adds_up(tmp_path: Path) -> None:
    assert traced(tmp_path, PROGRAM, "--quiet").returncode == 0

    capture = read(tmp_path / "run.profkit")

    assert clocks_of(capture) == (THREADS,)
    assert usage(capture).total_alloc_bytes >= 6 * 100_000
    assert_adds_up(capture)


@given(capture=captures())
@settings(max_examples=40, deadline=None)
def test_random_programs_add_up(capture: Capture) -> None:
    assert_adds_up(capture)


@given(capture=device_traces())
@settings(max_examples=40, deadline=None)
def test_random_gpu_traces_add_up(capture: Capture) -> None:
    assert_adds_up(capture)


@by_real_file
def test_real_traces_add_up(name: str) -> None:
    capture = opened_trace(real_trace(name))

    assert clocks_of(capture) == (DEVICES, THREADS)
    assert_adds_up(capture)


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=() if name in IN_QUICK_TIER else pytest.mark.full) for name in BUILDERS]
)
def test_every_pass_of_a_run_adds_up(framework: str) -> None:
    builder = load_builder(framework)
    if not builder.is_available().available:
        pytest.skip(builder.is_available().reason)

    run = run_network(NetworkRequest(LeNet(batch=2, maps=1, convolutions=1), framework, steps=2, threads=1))

    assert (run.status, run.reason) == ("ok", "")
    for capture in run.captures:
        assert clocks_of(capture) == (STEPS, THREADS)
        assert_adds_up(capture)
    joined = usage_of(run)
    assert sum(joined.rows.column("exclusive_ns")) + joined.remainder_ns == joined.wall_ns
    if joined.total_alloc_bytes is not None:
        own = joined.rows.sum("requested_bytes") or 0
        assert own + joined.unattributed_alloc_bytes == joined.total_alloc_bytes


def test_the_mixed_capture_has_every_clock_and_adds_up() -> None:
    capture = mixed_capture()

    assert clocks_of(capture) == (THREADS, STEPS, DEVICES)
    assert_adds_up(capture)


def test_a_clock_that_is_not_there_is_refused_with_those_that_are() -> None:
    capture = capture_of([Row("a", 0, 10)])

    with pytest.raises(UsageError, match="has no time of steps, but of threads"):
        usage_of(capture, clock=STEPS)
    with pytest.raises(UsageError, match="a clock is one of threads, steps, devices, not 'moon'"):
        account(capture, "moon")
    with pytest.raises(UsageError, match="of the time of threads only, not of devices"):
        account(mixed_capture(), DEVICES, thread="main")


def test_every_grouping_is_offered_on_the_first_clock_that_has_it() -> None:
    offered = groupings_of(mixed_capture())

    assert offered["name"] == offered["thread"] == THREADS
    assert offered["layer"] == offered["operator"] == offered["kind"] == STEPS
    assert offered["kernel"] == DEVICES
    assert set(offered) == {by for clock in (THREADS, STEPS, DEVICES) for by in groupings_on(clock)}


@pytest.fixture
def two_metrics() -> Iterator[None]:
    """One that is recorded and one that follows from it, declared here and nowhere else."""
    METRICS.append(
        Metric("letters", COUNT, SUM, "ABC", "letters of a name", lambda sums, _: [*map(len, sums.groups.names)])
    )
    METRICS.append(
        Metric("letters_each", NUMBER, SUM, "ABC each", of=("letters", "calls"), derived=lambda _, all, n: all / n)
    )
    yield
    del METRICS[-2:]


@pytest.mark.usefixtures("two_metrics")
def test_a_metric_is_one_declaration(tmp_path: Path, typed: Typed) -> None:
    """It is in JSON, CSV and text, in the lines below the rows and in the help, and rows can be sorted by it."""
    made = CaptureBuilder().begin(0, "longer").end(5).begin(10, "a").end(11).begin(20, "a").end(21)
    path, json_file, csv_file = made.write(tmp_path / "run.profkit"), tmp_path / "json", tmp_path / "csv"

    words = ["--columns", "calls,letters,ABC each", "--sort", "letters", "--json", json_file, "--csv", csv_file]
    lines = [line.split() for line in typed.shows("report", path, *words).splitlines()]

    shown = [line for line in lines if line[:1] in (["longer"], ["a"], ["total"])]
    assert shown == [["longer", "1", "6", "6.00"], ["a", "2", "1", "0.500"], ["total", "3", "7", "2.33"]]
    assert "letters of a name" in typed.shows("report", "--help")
    rows = json.loads(json_file.read_text())["rows"]
    assert {row["name"]: row["letters"] for row in rows} == {"longer": 6, "a": 1}
    assert not any("letters_each" in row for row in rows)
    with csv_file.open() as stream:
        assert {row["name"]: row["letters"] for row in csv.DictReader(stream)} == {"longer": "6", "a": "1"}
