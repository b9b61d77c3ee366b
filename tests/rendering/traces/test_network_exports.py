"""`profkit.export` of networks: every file at once, flame graphs that hold all of the steps, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.capture.network_capture import NetworkCapture, save_network_capture
from profkit.export import main
from tests.capture.network_captures import layer, network_capture, op, primitive, recording_of
from tests.viewers.trace_viewers import load_with_trace_processor


def the_capture() -> NetworkCapture:
    made = recording_of(
        layer("conv1", 0, 500),
        op("aten::conv2d", 100, 400, layer="conv1", phase="forward", requested_bytes=0),
        op("aten::convolution", 110, 390, layer="conv1", phase="forward", requested_bytes=4096),
        primitive("brgemm;jit", 150, 350, layer="conv1", phase="forward"),
        op("aten::mul", 600, 700),
        steps=[(0, 1000)],
    )
    return network_capture(made)


@pytest.fixture
def capture_path(tmp_path: Path) -> str:
    path = tmp_path / "network.profkit"
    save_network_capture(the_capture(), path)
    return str(path)


def test_all_files_of_a_network_are_written_at_once(
    capture_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="Parquet is written by DuckDB")
    names = {"chrome": "t.json.gz", "perfetto": "t.pftrace", "folded": "t.folded", "folded-bytes": "b.folded"}
    words = [word for flag, name in names.items() for word in (f"--{flag}", str(tmp_path / name))]

    code = main([capture_path, *words, "--parquet", str(tmp_path / "tables")])

    printed = capsys.readouterr().out
    assert code == 0
    assert all(f"{tmp_path / name}  " in printed for name in (*names.values(), "tables"))
    loaded = load_with_trace_processor(tmp_path / "t.json.gz")
    assert loaded.is_sound
    assert loaded.slices == 5 + 3 + 1  # spans; step, phase and layer; what is told of the capture
    assert sorted(path.stem for path in (tmp_path / "tables").iterdir())[:2] == ["allocations", "baseline"]


def test_a_flame_graph_of_time_holds_all_of_the_steps(capture_path: str, tmp_path: Path) -> None:
    assert main([capture_path, "--folded", str(tmp_path / "t")]) == 0

    lines = (tmp_path / "t").read_text().splitlines()
    assert lines == [
        "torch;forward;conv1;aten::conv2d 20",
        "torch;forward;conv1;aten::conv2d;aten::convolution 80",
        "torch;forward;conv1;aten::conv2d;aten::convolution;brgemm,jit 200",
        "torch;(no phase);(no layer);aten::mul 100",
        "torch;(dispatch) 600",
    ]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 1000


def test_a_flame_graph_of_bytes_holds_what_was_asked_for(capture_path: str, tmp_path: Path) -> None:
    assert main([capture_path, "--folded-bytes", str(tmp_path / "b")]) == 0

    assert (tmp_path / "b").read_text() == "torch;forward;conv1;aten::conv2d;aten::convolution 4096\n"


def test_bytes_that_nobody_recorded_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "n.profkit"
    save_network_capture(network_capture(recording_of(op("x", 0, 5))), path)

    code = main([str(path), "--folded-bytes", str(tmp_path / "b")])

    assert code == 1
    assert "torch recorded no bytes of operators" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_arrows_between_allocations_are_for_traced_programs(
    capture_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([capture_path, "--chrome", str(tmp_path / "t"), "--flows"]) == 2
    assert "--flows" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_a_run_that_failed_is_told_and_still_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failed.profkit"
    save_network_capture(network_capture(status="oom", reason="not enough memory"), path)

    code = main([str(path), "--perfetto", str(tmp_path / "t")])

    assert code == 0
    assert "warning: the run is oom: not enough memory" in capsys.readouterr().err


def test_a_damaged_network_capture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "damaged.profkit"
    save_network_capture(the_capture(), path)
    path.write_bytes(path.read_bytes()[:300])

    assert main([str(path), "--perfetto", str(tmp_path / "t")]) == 1
    assert "is not a capture of a network, or is damaged" in " ".join(capsys.readouterr().err.split())
