"""SQL on the capture of a network: its tables with texts resolved, what is not known as null, Parquet of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from profkit.capture.network_capture import NetworkCapture, save_network_capture
from profkit.query import main, write_parquet
from profkit.rendering.sql.networks import NETWORK_TABLES, open_network_database
from tests.capture.network_captures import layer, network_capture, op, recording_of


def the_capture() -> NetworkCapture:
    first = recording_of(
        layer("conv1", 0, 90),
        op("aten::conv2d", 10, 80, layer="conv1", phase="forward", requested_bytes=64, quality="exact"),
        op("aten::relu", 85, 88, layer="conv1", phase="forward"),
        steps=[(0, 100)],
        measures=["time"],
    )
    second = recording_of(op("aten::conv2d", 1010, 1080, phase="forward"), steps=[(1000, 1100)], measures=["memory"])
    columns = {"span": [0, -1], "time_ns": [1020, 1030], "address": [16, 16], "bytes": [4096, -4096]}
    second = replace(second, allocations={name: np.array(values, np.int64) for name, values in columns.items()})
    row = {"layer": "conv1", "phase": "forward", "native_ns": 12.5, "native_key": "conv2d/native/cpu/direct"}
    return network_capture(first, second, baseline=[row])


@pytest.fixture
def capture_path(tmp_path: Path) -> str:
    path = tmp_path / "network.profkit"
    save_network_capture(the_capture(), path)
    return str(path)


def test_spans_have_their_texts_and_nulls_for_what_is_not_known() -> None:
    database = open_network_database(the_capture())

    rows = database.execute(
        "select recording, name, kind, layer, phase, level, duration_ns, requested_bytes, parent from spans"
    ).fetchall()

    assert rows == [
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
    )
    database = open_network_database(network_capture(nested))

    rows = database.execute("select name, kind, layer, duration_ns, wall_ns from spans").fetchall()

    assert rows == [
        ("conv1", None, "conv1", 90, None),
        ("aten::conv2d", "conv2d", None, 70, 30),
        # Of the layer around it and of the phase of its operator: the kind is that of the tables.
        ("aten::add", "bias", None, 40, 40),
        ("aten::relu", "relu", None, 10, None),
    ]


def test_steps_threads_allocations_baseline_and_the_capture_are_tables() -> None:
    database = open_network_database(the_capture())

    def rows(sql: str) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = database.execute(sql).fetchall()
        return found

    assert rows("select * from steps") == [(0, 0, 0, 100, 100), (1, 0, 1000, 1100, 100)]
    assert rows("select recording, thread, os_thread_id, role from threads") == [
        (0, 0, 100, "main"),
        (1, 0, 100, "main"),
    ]
    assert rows("select recording, span, span_name, phase, bytes from allocations") == [
        (1, 0, "aten::conv2d", "forward", 4096),
        (1, None, None, None, -4096),
    ]
    assert rows("select layer, native_ns, native_key, bound_ns from baseline") == [
        ("conv1", 12.5, "conv2d/native/cpu/direct", None)
    ]
    assert rows("select recording, source, measures from recordings") == [
        (0, "by hand", ["time"]),
        (1, "by hand", ["memory"]),
    ]
    assert rows("select framework, mode, threads, is_training, status from capture") == [
        ("torch", "eager", 1, False, "ok")
    ]
    assert rows("select count(*) from step_times where pass = 'unrecorded'") == [(6,)]


def test_the_command_answers_questions_about_networks(capture_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([capture_path, "select type, sum(duration_ns) as ns from spans where level = 'operator' group by 1"])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert ["aten::conv2d", "140"] in lines


def test_the_tables_are_listed(capture_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([capture_path, "--tables"]) == 0

    printed = capsys.readouterr().out
    assert all(f"{name} (" in printed for name in NETWORK_TABLES)
    assert "spans (4 rows)" in printed


def test_all_tables_are_saved_as_parquet(tmp_path: Path) -> None:
    paths = write_parquet(the_capture(), str(tmp_path / "tables"))

    assert [Path(path).stem for path in paths] == list(NETWORK_TABLES)
    assert duckdb.connect().read_parquet(paths[0]).project("name").fetchall()[0] == ("conv1",)


def test_a_run_that_failed_is_told_beside_its_empty_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failed.profkit"
    save_network_capture(network_capture(status="crashed", reason="ended by SIGSEGV"), path)

    code = main([str(path), "select count(*) as n from spans"])

    printed = capsys.readouterr()
    assert code == 0
    assert printed.out.split() == ["n", "─", "0"]
    assert "the run is crashed: ended by SIGSEGV" in printed.err


@pytest.mark.parametrize("sql", ["select * from read_csv('/etc/passwd')", "install httpfs"])
def test_queries_reach_nothing_outside_the_capture(capture_path: str, sql: str) -> None:
    assert main([capture_path, sql]) == 2
