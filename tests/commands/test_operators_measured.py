"""The commands from words to table with real measurements: native and NumPy, tiny shapes, one thread."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.own_cache import use_own_cache
from tests.support.processes import workers_of
from tests.support.typed import Typed

pytest.importorskip("profkit._core", reason="the compiled core is not built")

TINY = {
    "conv": "--batch 1 --in-channels 3 --height 7 --width 5 --out-channels 4 --kernel-size 3 --padding 1",
    "matmul": "--m 7 --n 5 --k 3",
    "pool": "--batch 1 --channels 2 --height 7 --width 5",
    "lrn": "--batch 1 --channels 5 --height 3 --width 2",
    "bias_relu": "--batch 1 --channels 2 --height 3 --width 3",
    "softmax": "--rows 3",
    "activation": "--count 33 --function tanh",
    "add": "--count 33",
    "attention": "--batch 1 --heads 2 --steps 5 --width 3",
    "batch_norm": "--batch 2 --channels 3 --height 5 --width 4",
    "dropout": "--count 33",
    "embedding": "--rows 7 --vocabulary 5 --width 3",
    "layer_norm": "--rows 3 --width 17",
    "lstm": "--batch 2 --steps 3 --inputs 4 --cells 5",
    "optimiser_step": "--count 33",
}
QUICK = ["--threads", "1", "--budget", "0.1s", "--quiet"]
TWO_ROWS = ["--only", "native/reference,numpy"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    use_own_cache(tmp_path_factory.getbasetemp() / "cache", monkeypatch)


@pytest.mark.parametrize(
    ("command", "only"),
    [
        *((name, "native/reference,numpy") for name in ("conv", "matmul", "embedding")),
        *(pytest.param(name, "native,numpy", marks=pytest.mark.full) for name in TINY),
    ],
)
def test_each_command_measures_native_and_numpy(command: str, only: str, tmp_path: Path, typed: Typed) -> None:
    target = tmp_path / "result.json"

    words = [*TINY[command].split(), "--only", only, *QUICK]

    code, out, err = typed(command, *words, "--strict", "--json", target)

    assert code == 0, out + err
    assert "native/reference" in out
    assert max(map(len, out.splitlines())) <= 100
    rows = json.loads(target.read_text())["cells"][0]["rows"]
    assert {row["key"].split("/")[1] for row in rows if row["status"] == "ok"} == {"native", "numpy"}
    assert all(row["samples_ns"] for row in rows if row["status"] == "ok")
    assert typed.shows("report", target) == out


def test_a_sweep_over_a_field_and_threads_has_all_cells(tmp_path: Path, typed: Typed) -> None:
    target = tmp_path / "result.json"

    out = typed.shows("conv", *TINY["conv"].split(), "--stride", "1,2", *QUICK, *TWO_ROWS, "--json", target)

    assert [cell["spec"]["stride"] for cell in json.loads(target.read_text())["cells"]] == [1, 2]
    assert "summary: conv2d over stride" in out
    assert typed.shows("report", target) == out
    assert typed.shows("compare", target, target).count("time a") == 2


def test_an_unknown_key_is_a_usage_error(typed: Typed) -> None:
    assert "torch" in typed.refuses("conv", "--only", "torhc")


def test_list_shows_what_exists_without_measuring(typed: Typed) -> None:
    lines = typed.shows("conv", "--list").splitlines()

    assert any(line.split()[:2] == ["native/cpu/reference", "available"] for line in lines)
    assert any("torch/cpu" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_the_list_has_the_baseline_beside_what_was_asked_for(typed: Typed) -> None:
    out = typed.shows("conv", "--list", "--only", "numpy", "--baseline", "native/reference")

    assert [line.split()[0] for line in out.splitlines()] == ["native/cpu/reference", "numpy/cpu"]


@pytest.mark.parametrize(("device", "other"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_device_filters_the_list(device: str, other: str, typed: Typed) -> None:
    _, out, _ = typed("conv", "--list", "--device", device)

    assert f"/{device}" in out and f"/{other}" not in out


def test_a_broken_candidate_shows_the_compilers_words(tmp_path: Path, typed: Typed) -> None:
    kernel = tmp_path / "mine.cpp"
    kernel.write_text("this is not C++\n")

    code, out, _ = typed("conv", *TINY["conv"].split(), *QUICK, *TWO_ROWS, "--candidate", kernel)

    assert code == 3
    assert re.search(r"^candidate/mine +not compiled ", out, re.MULTILINE)
    # The line is wrapped wherever the path's length has it.
    assert "mine.cpp:1" in "".join(out.split())


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are looked for in /proc")
def test_ctrl_c_prints_what_was_measured_and_leaves_no_process() -> None:
    # For one image both do the same: no quiet machine tells them apart before the budget is over.
    alike = "native/cpu/im2col,native/cpu/im2col_batched"
    words = ["--batch", "1", "--only", alike, "--threads", "1", "--budget", "300s", "--margin", "0.001%"]
    command = [sys.executable, "-m", "profkit.conv", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    said = ""
    while "measure" not in (line := process.stderr.readline()):
        said += line
        assert line, f"it ended before it measured: {said}{process.communicate()[0]}"
    running = workers_of(process.pid)

    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 130, out + err
    assert "interrupted" in out
    assert "Traceback" not in err
    assert len(running) >= 2
    assert workers_of(process.pid) == []
