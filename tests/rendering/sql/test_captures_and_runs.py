"""SQL tables of captures and runs: texts resolved, what is not known as null, and what a run has besides."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.run import Run, save_run
from profkit.capture.schema import LAYER_KINDS, Capture, Level, MemoryEvents, MemoryKind, Ranges, Steps
from profkit.capture.schema import TABLES as SCHEMA
from profkit.query import main
from profkit.rendering.sql.captures import RUN_TABLES, TABLES, open_database
from tests.capture.mixed_captures import mixed_capture
from tests.capture.network_captures import layer, network_capture, op, recording_of


def the_run() -> Run:
    first = recording_of(
        layer("conv1", 0, 90),
        op("aten::conv2d", 10, 80, layer="conv1", phase="forward", requested_bytes=64, quality="exact"),
        op("aten::relu", 85, 88, layer="conv1", phase="forward"),
        steps=[(0, 100)],
        measures=["time"],
    )
    second = recording_of(op("aten::conv2d", 1010, 1080, phase="forward"), steps=[(1000, 1100)], measures=["memory"])
    columns = {"range": [0, -1], "time_ns": [1020, 1030], "address": [16, 16], "bytes": [4096, -1], "process": [0, 0]}
    events = {name: np.array(values, np.int64) for name, values in columns.items()}
    second = replace(second, memory_events=MemoryEvents(**events, kind=np.full(2, MemoryKind.PAGEABLE)))
    bound = {"flops": 100, "bytes": 20, "bound_ns": 10.0, "bound_by": "compute"}
    peaks = {"peak_flops_per_s": 1e10, "peak_bytes_per_s": 1e10}
    native = {"native_ns": 12.5, "native_key": "conv2d/native/cpu/direct"}
    row = {"layer": "conv1", "phase": "forward", **bound, **peaks, **native}
    return network_capture(first, second, baseline=[row])


def answers(shown: Run | Capture, sql: str) -> list[tuple[object, ...]]:
    """The rows of a query, as the command would have them."""
    run = shown if isinstance(shown, Run) else None
    capture = shown.whole() if isinstance(shown, Run) else shown
    found: list[tuple[object, ...]] = open_database(capture, run=run).execute(sql).fetchall()
    return found


@pytest.fixture
def run_path(tmp_path: Path) -> str:
    path = tmp_path / "network.profkit"
    save_run(the_run(), path)
    return str(path)


def test_operators_have_their_texts_and_nulls_for_what_is_not_known() -> None:
    sql = "select process, name, operator_kind, layer, phase, level, duration_ns, requested_bytes, parent from ranges"

    assert answers(the_run(), sql) == [
        (0, "conv1", None, "conv1", None, "layer", 90, None, None),
        (0, "aten::conv2d", "conv2d", "conv1", "forward", "operator", 70, 64, 0),
        (0, "aten::relu", "relu", "conv1", "forward", "operator", 3, None, 0),
        (1, "aten::conv2d", "conv2d", None, "forward", "operator", 70, None, None),
    ]


def test_shares_of_the_wall_clock_sum_to_the_step_as_durations_do_not() -> None:
    nested = recording_of(
        layer("conv1", 0, 90),
        op("aten::conv2d", 10, 80, phase="forward"),
        op("aten::add", 20, 60),
        op("aten::relu", 200, 210),  # in no step
        steps=[(0, 100)],
        facts={LAYER_KINDS: {"conv1": "conv2d"}},
    )

    rows = answers(network_capture(nested), "select name, operator_kind, layer, duration_ns, wall_ns from ranges")

    assert rows == [
        ("conv1", None, "conv1", 90, None),
        ("aten::conv2d", "conv2d", None, 70, 30),
        # Of the layer around it and of the phase of its operator: the kind is that of the tables.
        ("aten::add", "bias", None, 40, 40),
        ("aten::relu", "relu", None, 10, None),
    ]


def test_steps_threads_memory_and_what_is_known_of_the_run_are_tables() -> None:
    def rows(sql: str) -> list[tuple[object, ...]]:
        return answers(the_run(), sql)

    assert rows("select step, process, start_ns, end_ns, duration_ns from steps") == [
        (0, 0, 0, 100, 100),
        (1, 1, 1000, 1100, 100),
    ]
    assert rows("select thread, process, os_thread_id, role from threads") == [(0, 0, 100, "main"), (1, 1, 100, "main")]
    # A byte given back is not an unknown number of bytes.
    assert rows("select process, range, range_name, kind, bytes from memory_events") == [
        (1, 3, "aten::conv2d", "pageable", 4096),
        (1, None, None, "pageable", -1),
    ]
    assert rows("select layer, native_ns, native_key, bound_ns from baseline") == [
        ("conv1", 12.5, "conv2d/native/cpu/direct", 10.0)
    ]
    assert rows("select process, framework, recorder, measures from processes") == [
        (0, "torch", "by hand", ["time"]),
        (1, "torch", "by hand", ["memory"]),
    ]
    assert rows("select framework, mode, threads, is_training, status, reason from run") == [
        ("torch", "eager", 1, False, "ok", None)
    ]
    assert rows("select count(*), max(process) from step_times where pass = 'unrecorded'") == [(6, 0)]
    assert rows("select r.phase, sum(m.bytes) from memory_events m join ranges r on r.row = m.range group by 1") == [
        ("forward", 4096)
    ]


def test_kinds_and_shares_of_operators_follow_from_their_own_pass() -> None:
    """Two passes on the same clock at the same time: what one says of layers does not hold for the other."""
    passes = [
        recording_of(
            op("aten::mul", 0, 50, layer="x"),
            op("aten::mul", 50, end, layer="x"),
            steps=[(0, 100)],
            measures=[measure],
            facts={LAYER_KINDS: {"x": kind}},
        )
        for measure, kind, end in (("time", "pool2d", 100), ("memory", "lrn", 80))
    ]

    rows = answers(network_capture(*passes), "select process, step, operator_kind, wall_ns from ranges")

    assert rows == [(0, 0, "pool", 50), (0, 0, "pool", 50), (1, 1, "lrn", 50), (1, 1, "lrn", 30)]


# --- All tables ---


def test_every_column_of_the_schema_is_a_column_of_its_table() -> None:
    database = open_database(mixed_capture())

    for name, kind in SCHEMA.items():
        shown = {row[0] for row in database.execute(f"describe {name}").fetchall()}
        renamed = {"thread_name" if (name, item.name) == ("threads", "name") else item.name for item in fields(kind)}
        assert renamed <= shown
        assert database.execute(f"select count(*) from {name}").fetchone() == (len(getattr(mixed_capture(), name)),)


def test_columns_that_a_source_has_not_are_there_and_null() -> None:
    """A capture whose ranges have a name and times alone."""
    times = {"start_ns": np.array([5]), "end_ns": np.array([9]), "name": np.array([0]), "thread": np.array([0])}
    capture = replace(mixed_capture(), ranges=Ranges(**times), steps=Steps())
    types = [open_database(each).execute("describe ranges").fetchall() for each in (capture, mixed_capture())]

    found = open_database(capture).execute("select * from ranges")

    row = dict(zip([column[0] for column in found.description], found.fetchall()[0]))
    assert types[0] == types[1]
    assert (row["name"], row["duration_ns"], row["kind"], row["is_open"]) == ("main", 4, "range", False)
    unknown = {name for name, value in row.items() if value is None}
    assert {"layer", "level", "source", "wall_ns", "operator_kind", "payload", "requested_bytes", "parent"} <= unknown


def test_numbers_that_have_names_are_words() -> None:
    capture = mixed_capture()

    assert answers(capture, "select distinct level from ranges where level is not null order by 1") == sorted(
        (level.name.lower(),) for level in Level
    )
    assert answers(capture, "select kind, direction, source_kind, target_kind from copies") == [
        ("copy", "host_to_device", "pinned", "device"),
        ("set", None, None, "device"),
    ]
    assert answers(capture, "select name, is_driver, return_code from calls where return_code > 0 or is_driver") == [
        ("cuLaunchKernel", True, 0),
        ("cudaDeviceSynchronize", False, 700),
    ]
    assert answers(capture, "select call, lifetime_ns from allocations") == [
        ("malloc", 390),
        ("malloc", 840),
        ("calloc", None),
        ("malloc", None),
    ]
    assert answers(capture, "select payload_type, payload, payload_integer from ranges where payload is not null") == [
        ("int64", 3.0, 3),
        ("float64", 0.5, None),
    ]


# --- The command ---


def test_the_tables_of_a_run_are_listed(run_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([run_path, "--tables"]) == 0

    printed = capsys.readouterr().out
    assert all(f"{name} (" in printed for name in (*TABLES, *RUN_TABLES))
    assert "ranges (4 rows)" in printed


def test_a_run_that_failed_is_told_beside_its_empty_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failed.profkit"
    save_run(network_capture(status="crashed", reason="ended by SIGSEGV"), path)

    code = main([str(path), "select (select count(*) from ranges) as n, status from run"])

    printed = capsys.readouterr()
    assert code == 0
    assert printed.out.split()[-2:] == ["0", "crashed"]
    assert "the run is crashed: ended by SIGSEGV" in printed.err
