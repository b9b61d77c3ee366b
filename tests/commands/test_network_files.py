"""A real network from its run to every table and file: native kernels, two steps of training, nothing by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profkit import compare, export, query
from profkit.attribution.gaps import layer_gaps
from profkit.capture.run import Run, load_run, save_run
from profkit.measurement import baseline
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import LeNet
from profkit.rendering.usage.gaps import gap_table
from tests.viewers.trace_viewers import load_with_catapult, load_with_trace_processor

NETWORK = LeNet(batch=2, maps=1, convolutions=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a run, with its baseline."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROFKIT_CACHE", str(folder / "cache"))
        patch.setattr(baseline, "machine_peaks", lambda dtype, threads: {"flops_per_s": 1e11, "bytes_per_s": 1e10})
        run = run_network(NetworkRequest(NETWORK, "native", is_training=True, steps=2))
        assert (run.status, run.reason) == ("ok", "")
        run.baseline = baseline.measure_baseline(NETWORK, 1, is_training=True, budget_s=0.05)
    save_run(run, folder / "lenet.profkit")
    return str(folder / "lenet.profkit")


@pytest.fixture
def run(path: str) -> Run:
    return load_run(path)


def test_the_table_against_the_baseline_holds_all_of_the_steps(run: Run) -> None:
    table = layer_gaps(run)

    assert sum(row.framework_ns for row in table.rows) + sum(each.ns for each in table.outside) == table.wall_ns
    rows = {(row.layer, row.phase): row for row in table.rows}
    assert str(rows["conv1", "forward"].native_key).startswith("conv2d/native/cpu/")
    assert rows["conv1", "forward"].ratio is not None and rows["conv1", "forward"].bottleneck is not None
    assert str(rows["pool1", "backward"].native_key).startswith("pool2d/native/cpu/")
    assert rows["flatten", "backward"].native_ns is None
    assert max(map(len, str(gap_table(table)).splitlines())) <= 100


def test_its_traces_load_in_both_viewers(path: str, run: Run, tmp_path: Path) -> None:
    chrome, perfetto = tmp_path / "t.json", tmp_path / "t.pftrace"

    assert export.main([path, "--chrome", str(chrome), "--perfetto", str(perfetto)]) == 0

    spans = sum(len(recording.ranges) for recording in run.captures)
    for trace in (chrome, perfetto):
        loaded = load_with_trace_processor(trace)
        assert loaded.slices > spans
        assert loaded.processes == len(run.captures)
    load_with_catapult(chrome)


def test_it_can_be_asked_in_sql(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        query.main([path, "select distinct layer from ranges where operator_kind = 'conv2d' and phase = 'backward'"])
        == 0
    )

    assert capsys.readouterr().out.split() == ["layer", "─────", "conv1"]


def test_it_does_not_differ_from_itself(path: str, tmp_path: Path) -> None:
    code = compare.main([path, path, "--fail-on", "0%", "--margin", "0.1%", "--json", str(tmp_path / "c.json")])

    content = json.loads((tmp_path / "c.json").read_text())
    assert code == 0
    assert content["differences"] == []
    assert {row["verdict"] for row in (*content["rows"], *content["totals"])} <= {"same", "not resolved"}
    assert {row["ratio"] for row in content["rows"]} == {1.0}
