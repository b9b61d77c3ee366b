"""`profkit study` as typed: looking, running, killing it and continuing, out of memory, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.processes import succeed
from tests.support.typed import Typed

ONE_VARIANT = """
title = "Tiny"
network = "cifar10"
frameworks = ["numpy"]
repetitions = {repetitions}
steps = 2
baseline = false
[parameters]
crop = 24
filters = 4
[variants]
"base" = {{ batch = 2 }}
"""
SWEEP = """
title = "Tiny"
network = "mlp"
frameworks = ["numpy"]
repetitions = 1
steps = 2
baseline = false
skip = [{ neurons = 8, batch = 2, reason = "too slow" }]
epoch = { images = 100 }
[axes]
neurons = [4, 8]
batch = [2, 4]
"""
WAIT_S = 60


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_study(text: str) -> None:
    Path("tiny.toml").write_text(text)


def statuses(folder: str = "study-tiny") -> dict[str, str]:
    return {path.stem: json.loads(path.read_text())["status"] for path in sorted(Path(folder, "cells").glob("*.json"))}


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "profkit.study", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_cells(count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(list(Path("study-tiny", "cells").glob("*.json"))) < count:
        assert time.monotonic() < deadline, "the first cells did not end"
        time.sleep(0.005)


def test_the_list_names_the_studies_with_their_titles(typed: Typed) -> None:
    out = typed.shows("study", "--list")

    assert "cifar10-operators    Operators of CNN inference on CIFAR-10" in out
    assert "threads-and-devices  Threads and frameworks: perceptrons on Shuttle, LeNet on CIFAR-10" in out


def test_the_plan_is_shown_with_its_cells_and_times_and_nothing_is_made(tmp_path: Path, typed: Typed) -> None:
    printed = typed.shows("study", "--dry-run", "cifar10-operators", "--quick", "--only", "torch,base")

    assert "base: torch, repetition 1" in printed and "base: learning with torch" in printed
    assert "tensorflow" not in printed and "stride" not in printed
    assert "results go to study-cifar10-operators-quick" in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "name a study: profkit study --list"),
        (["cifar10-operator"], "did you mean cifar10-operators?"),
        (["nowhere.toml"], "cannot read nowhere.toml"),
        (["cifar10-operators", "--only", "torhc"], "did you mean torch?"),
        (["cifar10-operators", "--threads", "4096"], "threads 4096"),
        (["cifar10-operators", "--learn-steps", "0"], "--learn-steps 0: must be at least 1"),
        (["cifar10-operators", "--budget", "soon"], "expected a time such as 20s"),
        (["cifar10-operators", "--quikc"], "did you mean --quick?"),
        (["cifar10-operators", "--data", "nowhere"], "there is no file or folder"),
    ],
)
def test_wrong_usage_is_answered_before_anything_runs(words: list[str], expected: str, typed: Typed) -> None:
    assert expected in typed.refuses("study", *words)
    assert not os.listdir()


def test_a_users_own_study_runs_and_leaves_everything_in_one_folder(typed: Typed) -> None:
    learning = '[learning]\nframework = "numpy"\nsteps = 2\n[published]\nsource = "me"\n'
    write_study(ONE_VARIANT.format(repetitions=1) + '"stride 2" = { batch = 2, stride = 2 }\n' + learning)

    code, out, err = typed("study", "tiny.toml", "--threads", "1", "--output", "here", "--json", "copy.json")

    assert code == 0
    assert set(statuses("here").values()) == {"ok"} and len(statuses("here")) == 4
    assert "[4/4] stride 2: learning with numpy: ok" in err
    assert "stride 2  numpy" in out and "report: here/report.md" in out
    for name in ("report.md", "report.html", "summary.json", "environment.json", "plot.svg", "cells.csv"):
        assert Path("here", name).stat().st_size > 100
    assert Path("copy.json").read_text() == Path("here", "summary.json").read_text()
    learned = json.loads(Path("copy.json").read_text())["sweeps"][0]["variants"][0]["learned"]
    assert learned["steps"] == 2 and 0 <= learned["precision_percent"] <= 100
    assert "synthetic" in learned["data"]


def test_a_sweep_over_axes_is_planned_then_run_with_logs_and_a_plot(typed: Typed) -> None:
    Path("tiny.toml").write_text(SWEEP)

    planned = typed.shows("study", "tiny.toml", "--dry-run")
    assert not Path("study-tiny").exists()
    code, out, err = typed("study", "tiny.toml", "--output", "here")

    assert "mlp: 4 points" not in planned and "tiny: 4 points" in planned
    assert "neurons 8, batch 4: numpy, repetition 1" in planned and "skipped: too slow" in planned
    assert "4 cells, 1 skipped, 3 to run" in planned
    assert (code, list(statuses("here").values())) == (0, ["ok"] * 3)
    assert "3 cells to run" in err and "neurons" in out and "images/s" in out
    for log in Path("here", "cells").glob("*.log"):
        assert log.read_text().startswith("$ ") and log.read_text().endswith("\nok\n")
    for name in ("plot.png", "plot.svg", "report.html"):
        assert Path("here", name).stat().st_size > 1000


def test_threads_that_are_an_axis_are_no_option(typed: Typed) -> None:
    Path("tiny.toml").write_text(SWEEP + "threads = [1]\n")

    assert "--threads 1: the study itself says on how many threads" in typed.refuses(
        "study", "tiny.toml", "--threads", "1", "--dry-run"
    )


def test_data_files_are_used_and_named_in_every_output(typed: Typed) -> None:
    generator = np.random.default_rng(0)
    for name in ("test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        records = generator.integers(0, 256, (8, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(f"{name}.bin")
    write_study(ONE_VARIANT.format(repetitions=1) + '[learning]\nframework = "numpy"\nsteps = 1\n')

    out = typed.shows("study", "tiny.toml", "--threads", "1", "--data", ".", "--output", "results")

    label = "CIFAR-10, binary version, not the published files, mean 0 and deviation 1 per image"
    assert f"images: {label}" in out
    content = json.loads(Path("results", "summary.json").read_text())
    assert content["data"] == label and content["sweeps"][0]["variants"][0]["learned"]["tested"] == 8
    for name in ("report.md", "report.html", "plot.svg"):
        assert label in Path("results", name).read_text()


def test_a_killed_run_continues_where_it_stopped() -> None:
    write_study(ONE_VARIANT.format(repetitions=3))
    words = ("tiny.toml", "--threads", "1", "--quiet")

    run = started(*words)
    wait_for_cells(1)
    run.kill()
    run.communicate()
    kept = {path: path.stat().st_mtime_ns for path in Path("study-tiny", "cells").glob("*.json")}
    succeed([sys.executable, "-m", "profkit.study", *words])

    assert run.returncode == -signal.SIGKILL
    assert 1 <= len(kept) < 3
    assert list(statuses().values()) == ["ok"] * 3
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())
    assert not list(Path("study-tiny", "cells").glob(".*"))


def test_ctrl_c_leaves_a_report_of_what_is_finished_and_says_how_to_continue() -> None:
    write_study(ONE_VARIANT.format(repetitions=3))

    run = started("tiny.toml", "--threads", "1")
    wait_for_cells(1)
    run.send_signal(signal.SIGINT)
    out, errors = run.communicate(timeout=WAIT_S)

    assert run.returncode == 130
    assert "the same command continues" in errors
    assert "base" in out and Path("study-tiny", "report.md").exists()
    assert set(statuses().values()) <= {"ok", "stopped"}
    assert "Traceback" not in errors


def test_out_of_memory_costs_one_cell(typed: Typed) -> None:
    write_study(ONE_VARIANT.format(repetitions=1) + '"huge" = { batch = 2048, stride = 3 }\n')

    out = typed.shows("study", "tiny.toml", "--threads", "1", "--memory-limit", "128MiB")

    assert statuses() == {"base.numpy.1": "ok", "huge.numpy.1": "oom"}
    assert "Cells without numbers" in Path("study-tiny", "report.md").read_text()
    assert "numpy  oom" in out


def test_when_nothing_could_be_measured_the_exit_code_says_so(typed: Typed) -> None:
    write_study(ONE_VARIANT.format(repetitions=1).replace('"numpy"', '"cupy"'))

    code, out, _ = typed("study", "tiny.toml", "--threads", "1")

    if statuses() == {"base.cupy.1": "ok"}:
        pytest.skip("there is a GPU")
    assert code == 1
    assert "unavailable" in out


def test_other_conditions_in_the_same_folder_are_refused_and_nothing_is_lost(typed: Typed) -> None:
    write_study(ONE_VARIANT.format(repetitions=1))
    typed.shows("study", "tiny.toml", "--threads", "1")
    before = sorted(os.listdir("study-tiny/cells"))

    assert "seed: 0 there, 7 now" in typed.refuses("study", "tiny.toml", "--threads", "1", "--seed", "7")
    assert sorted(os.listdir("study-tiny/cells")) == before
