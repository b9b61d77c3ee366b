"""The recorder under ThreadSanitizer, AddressSanitizer and UndefinedBehaviourSanitizer: a finding ends the program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import Capture, RangeKind
from tests.capture.tables import payload_values
from tests.support.processes import succeed
from tests.tracer.core.recorder_programs import compile_stress, names, names_by_process

SANITIZERS = {"plain": "", "threads": "thread", "addresses-undefined": "address,undefined"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=() if kind == "plain" else pytest.mark.full) for kind in SANITIZERS],
)
def stress(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_stress(tmp_path_factory.mktemp("stress"), SANITIZERS[request.param])


def run(program: Path, what: str, folder: Path, **variables: str) -> str:
    variables = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"} | variables
    return succeed([program, what, folder / "run.profkit"], variables)


def stressed(program: Path, what: str, folder: Path, **variables: str) -> tuple[str, Capture]:
    return run(program, what, folder, **variables), read(folder / "run.profkit")


def test_every_record_of_four_threads_arrives(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "many_threads", tmp_path)

    inner = {f"inner {thread}": 20_000 for thread in range(4)}
    assert capture.warnings == () and capture.losses.records == 0
    assert names(capture) == {"outer": 80_000} | inner
    assert names(capture, RangeKind.MARK) == {"outer": 800}
    assert names(capture, RangeKind.SPAN) == {f"inner {thread}": 200 for thread in range(4)}
    assert len(capture.allocations) == 80_000
    assert sorted(capture.threads.small_allocations) == [0, 20_000, 20_000, 20_000, 20_000]
    assert sorted(capture.threads.unbalanced_pops) == [0, 1, 1, 1, 1]


def test_thousands_of_short_threads_are_told_apart(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "short_threads", tmp_path)

    assert capture.warnings == () and capture.losses.records == 0
    assert len(capture.threads) == 1 + 3200
    assert names(capture) == {"brief": 9600}


def test_captures_may_start_and_stop_while_threads_record(stress: Path, tmp_path: Path) -> None:
    run(stress, "restarts", tmp_path)

    captures = [read(path) for path in sorted(tmp_path.glob("run.profkit.*"))]

    assert len(captures) == 30
    assert [capture.warnings for capture in captures] == [()] * 30
    assert [names(capture)["run"] for capture in captures] == [1] * 30
    assert sum(names(capture)["restless"] for capture in captures) > 0


def test_what_a_slow_disk_leaves_no_room_for_is_counted_exactly(stress: Path, tmp_path: Path) -> None:
    output, capture = stressed(stress, "exhaustion", tmp_path)

    attempted, dropped = map(int, output.split())
    recorded = names(capture, RangeKind.MARK)["fast"]
    assert capture.losses.records == capture.losses.too_slow == dropped > 0
    assert 0 <= recorded + dropped - attempted <= 12, "six outer ranges may lose their begin and end too"
    assert capture.losses.stalled_ns > 0


def test_a_name_has_one_id_whoever_asks(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "names", tmp_path)

    payloads = payload_values(capture.ranges)
    recorded = [capture.strings[name] for name in capture.ranges.name]
    assert recorded == [f"name {payload}" for payload in payloads]
    assert len(recorded) == 20_000


def test_beyond_the_limit_names_are_replaced_and_records_kept(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "too_many_names", tmp_path)

    recorded = names(capture, RangeKind.MARK)
    replaced = recorded["(too many names)"]
    assert recorded.total() == 300_000
    assert replaced == 300_000 - (len(recorded) - 1) > 0
    assert len(capture.warnings) == 1 and capture.warnings[0].startswith(f"{replaced:,} times a name")


def test_fork_children_record_into_their_own_part(stress: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if "threads" in request.node.callspec.id:
        pytest.skip("ThreadSanitizer does not support threads after a fork")
    _, capture = stressed(stress, "forks", tmp_path)

    children = names_by_process(capture)[1:]
    assert capture.warnings == ()
    assert children == [{"brief": 9}] * 20
    assert all(process.has_ended for process in capture.processes)


def test_ranges_ended_by_another_thread_do_not_fill_the_stack(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "foreign_ends", tmp_path)

    table = capture.ranges
    assert names(capture, RangeKind.SPAN) == {"given away": 3000}
    assert (table.thread != table.end_thread).all()
    assert not table.is_open.any()
    assert capture.losses.records == 0


def test_times_are_right_after_idle_hours_and_never_run_back(stress: Path, tmp_path: Path) -> None:
    _, capture = stressed(stress, "clock_jumps", tmp_path, PROFKIT_TRACE_CLOCK="monotonic")

    table = capture.ranges
    titles = [capture.strings[name] for name in table.name]
    hours = {title: round(span / 3.6e12, 3) for title, span in zip(titles, table.end_ns - table.start_ns)}
    assert names(capture)["many"] == 3000
    assert hours["outer"] == 10 and hours["five idle hours"] == 5
    assert hours["on a core that is behind"] == hours["still behind"] == 0
    assert (table.end_ns >= table.start_ns).all()
    assert (table.start_ns[1:] >= table.start_ns[:-1]).all()


def test_what_signal_handlers_record_within_an_event_is_dropped_and_counted(stress: Path, tmp_path: Path) -> None:
    output, capture = stressed(stress, "handlers", tmp_path, PROFKIT_TRACE_CLOCK="monotonic")

    table = capture.ranges
    assert capture.warnings == ()
    assert names(capture) == {"interrupted": 2000} and names(capture, RangeKind.MARK) == {"interrupted": 1000}
    assert not table.is_open.any() and (table.depth[table.kind == RangeKind.RANGE] == 0).all()
    assert [payload for payload in payload_values(table) if payload is not None] == [7] * 1000
    assert capture.losses.records == int(output) > 100_000
