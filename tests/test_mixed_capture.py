"""One pipeline: a capture made of the schema alone, with something of everything, is answered and shown by every view.

Each is asked for what the others say too: rows of SQL are slices of traces, folded stacks are the clocks' own times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from profkit import export
from profkit.attribution.tree import tree_of
from profkit.capture.schema import Steps
from profkit.rendering.sql.captures import TABLES, open_database
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.files import write_chrome, write_perfetto
from profkit.rendering.traces.folded import write_folded_bytes, write_folded_time
from tests.capture.mixed_captures import CHILD, ORIGIN_NS, STEPS_NS, mixed_capture
from tests.viewers import trace_viewers as viewers

pytest.importorskip("duckdb", reason="DuckDB is not installed: no SQL")
ABOUT = "profkit capture"  # the instant that tells about the trace
COUNTS = {
    "ranges": "select count(*) from slice where {host} and category not like 'cuda%' and category not in "
    f"('outline', 'memory') and name != '{ABOUT}'",
    "calls": "select count(*) from slice where category in ('cuda_runtime', 'cuda_driver')",
    "activities": "select count(*) from slice where not ({host})",
    "steps": "select count(*) from slice where category = 'outline' and depth = 0",
}
IS_HOST = {
    "chrome": "category not in ('kernel', 'gpu_memcpy', 'gpu_memset')",
    "perfetto": "id not in (select id from gpu_slice)",
}
WRITERS = {"chrome": write_chrome, "perfetto": write_perfetto}


def sql(query: str) -> list[tuple[Any, ...]]:
    """The answer of the capture's tables."""
    found: list[tuple[Any, ...]] = open_database(mixed_capture()).execute(query).fetchall()
    return found


@dataclass(frozen=True)
class Trace:
    """The capture in one format, as the trace processor has it."""

    format: str
    loaded: viewers.Loaded
    counts: dict[str, int]
    slices: list[list[Any]]
    arguments: list[list[Any]]
    counters: list[list[Any]]


@pytest.fixture(scope="module", params=list(WRITERS))
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = tmp_path_factory.mktemp("mixed") / "trace"
    WRITERS[request.param](trace_content(mixed_capture()), path)
    queries = [query.format(host=IS_HOST[request.param]) for query in COUNTS.values()]
    loaded = viewers.load_with_trace_processor(path, [viewers.SLICES, viewers.ARGUMENTS, viewers.COUNTERS, *queries])
    slices, arguments, counters, *counts = loaded.answers
    numbers = {table: answer[0][0] for table, answer in zip(COUNTS, counts)}
    return Trace(request.param, loaded, numbers, slices, arguments, counters)


def folded(path: Path) -> dict[str, int]:
    """Numbers by stack."""
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {stack: int(number) for stack, _, number in lines}


# --- Rows of tables are slices of traces ---


def test_tables_and_traces_have_the_same_rows(trace: Trace) -> None:
    rows = {table: sql(f"select count(*) from {table}")[0][0] for table in COUNTS}

    assert trace.counts == rows == {"ranges": 20, "calls": 5, "activities": 6, "steps": 2}
    phases_and_layers = 4 + 3
    assert trace.loaded.slices == sum(rows.values()) + phases_and_layers + 1


def test_every_slice_has_the_times_and_the_thread_of_its_row(trace: Trace) -> None:
    expected = sql(
        f"select name, r.start_ns - {ORIGIN_NS}, r.duration_ns, os_thread_id from"
        " (select name, start_ns, duration_ns, thread from ranges union all"
        " select name, start_ns, duration_ns, thread from calls) r join threads using (thread)"
    )

    at_host = [row for row in trace.slices if row[7] and "stream" not in row[7] and row[3] != "outline"]
    assert Counter(tuple(row[:3]) for row in at_host) == Counter(row[:3] for row in expected)
    if trace.format == "perfetto":  # a lane is a track of its thread there, in Chrome's traces a thread of its own
        assert Counter((*row[:3], row[6]) for row in at_host) == Counter(expected)


def test_arguments_of_slices_are_the_columns_that_the_row_has(trace: Trace) -> None:
    told: dict[str, dict[str, Any]] = {}
    for name, key, value in trace.arguments:
        told.setdefault(name, {})[key] = value
    columns = {"Input Dims": "shapes", "Sequence number": "sequence", "kind": "operator_kind"}
    texts = ["type", "layer", "phase", "implementation", "fused", "Input Dims", "kind"]
    counts = [
        "step",
        "Sequence number",
        "pool_cpu_ns",
        "requested_bytes",
        "temporary_bytes",
        "peak_bytes",
        "live_bytes",
    ]
    names = [columns.get(name, name) for name in (*texts, *counts, "involuntary_switches")]
    rows = sql(f"select name, {', '.join(names)} from ranges where name not in ('step 0', 'step 1', 'conv1')")
    assert len(rows) == 17
    for name, *values in rows:
        shown = [told.get(name, {}).get(key) for key in (*texts, *counts, "involuntary_switches")]
        assert shown == values, name
    assert told["aten::max_pool2d"]["quality"] == "aggregate" and "quality" not in told["aten::conv2d"]
    assert told["upload"]["ended by"] == "another thread" and told["wait"]["end"] == "not recorded"
    assert told["dgrad"]["operator"] == "aten::convolution_backward"


def test_counters_of_memory_are_sums_of_the_tables(trace: Trace) -> None:
    last = {name: value for name, _, value in trace.counters}

    assert last["live bytes"] == sql("select sum(bytes) from memory_events where kind = 'pageable'")[0][0] == 64
    for device in (0, 1):
        in_sql = sql(f"select sum(bytes) from memory_events where device = {device}")[0][0]
        assert last[f"GPU {device} memory bytes"] == in_sql
    assert last["resident bytes"] == sql("select last(resident_bytes order by time_ns) from samples")[0][0]
    assert {"live from forward bytes", "live from host bytes", "live recorded bytes"} < last.keys()


def test_arrows_lead_from_launches_to_work_and_from_allocations_to_releases(tmp_path: Path) -> None:
    launched = sql("select count(*) from activities where call is not null")[0][0]
    between_ranges = sql("select count(*) from allocations where range <> free_range")[0][0]

    write_chrome(trace_content(mixed_capture(), flows=10), tmp_path / "t.json")

    assert (launched, between_ranges) == (5, 1)
    assert viewers.load_with_trace_processor(tmp_path / "t.json").flows == launched + between_ranges
    imported = viewers.load_with_catapult(tmp_path / "t.json")
    assert len(imported["flows"]) == launched + between_ranges


# --- Folded stacks are the clocks' own times ---


def test_folded_stacks_of_steps_are_all_of_the_steps(tmp_path: Path) -> None:
    write_folded_time(mixed_capture(), tmp_path / "t")

    stacks = folded(tmp_path / "t")
    assert sum(stacks.values()) == sum(end - start for start, end in STEPS_NS)
    shares = sql("select sum(wall_ns) from ranges")[0][0]
    operators = [number for stack, number in stacks.items() if stack.count(";") > 1]
    assert sum(operators) == shares
    # Two threads had operators open for 200 ns together; outside all operators one was in the framework's own code.
    assert stacks["torch;backward;conv1;aten::convolution_backward"] == 350 - 100
    assert stacks["torch;(framework)"] == 50


def test_folded_stacks_without_steps_are_the_own_times_of_all_threads(tmp_path: Path) -> None:
    capture = replace(mixed_capture(), steps=Steps())

    write_folded_time(capture, tmp_path / "t")

    stacks = folded(tmp_path / "t")
    assert sum(stacks.values()) == int(tree_of(capture).own_ns.sum())
    child = capture.ranges.thread == CHILD
    of_child = sum(number for stack, number in stacks.items() if stack.startswith("main of process 80;"))
    assert of_child == int(tree_of(capture).own_ns[child].sum()) == 650 + 200 + 1_300


@pytest.mark.parametrize("has_steps", [True, False])
def test_folded_bytes_are_those_that_were_asked_for(has_steps: bool, tmp_path: Path) -> None:
    capture = mixed_capture()

    write_folded_bytes(capture if has_steps else replace(capture, steps=Steps()), tmp_path / "t")

    table = "requested_bytes) from ranges" if has_steps else "bytes) from allocations"
    assert sum(folded(tmp_path / "t").values()) == sql(f"select sum({table}")[0][0] == (512 if has_steps else 177)


# --- The command ---


def test_every_export_is_written_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("profkit.export.open_any", lambda _: mixed_capture())
    names = {"chrome": "t.json.gz", "perfetto": "t.pftrace", "folded": "t.folded", "folded-bytes": "b.folded"}
    words = [word for flag, name in names.items() for word in (f"--{flag}", str(tmp_path / name))]

    code = export.main(["mixed", *words, "--parquet", str(tmp_path / "tables"), "--flows", "3"])

    assert code == 0
    assert capsys.readouterr().out.count("open with") == len(names) + 1
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == set(TABLES)
    assert all((tmp_path / name).stat().st_size for name in names.values())
