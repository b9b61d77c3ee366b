"""`profkit selftest` as people type it: what it proves here, what it finds in faulty kernels, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from profkit import _core
from profkit.selftests.run import FILE
from tests.selftests.faulty_kernels import faulty_environment
from tests.support.processes import finish
from tests.support.typed import Typed

SETS = _core.cpu_features()["simd_supported"]


def run(folder: Path, *words: str, environment: dict[str, str] | None = None) -> tuple[int, str, dict[str, Any]]:
    """Exit code, what was printed, and the file."""
    done = finish([sys.executable, "-m", "profkit.selftest", *words], environment, cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    path = folder / "profkit-selftest.json"
    return done.returncode, done.stdout, json.loads(path.read_text()) if path.exists() else {}


def statuses(report: dict[str, Any], key: str) -> dict[str, str]:
    """By instruction set or device."""
    return {proof["place"]: proof["status"] for proof in report["kernels"] if proof["key"] == key}


def test_kernels_and_the_recorder_are_proven_here(tmp_path: Path) -> None:
    code, text, report = run(tmp_path, "--only", "softmax,recorder/host")

    wrong = [item for item in (*report["kernels"], *report["findings"]) if item["status"] == "wrong"]
    assert code == 0 and not wrong
    assert report["schema"] == "profkit.selftest/1" and not report["is_wrong"]
    assert report["environment"]["cpu"] and report["environment"]["build"]["compiler"]
    assert report["build"]["core"]["id"] and datetime.fromisoformat(report["date"]).utcoffset() == timedelta(0)
    for key in _core.kernels("softmax"):
        assert statuses(report, key) == dict.fromkeys(SETS, "proven")
        assert f"softmax/{key.split('/')[-1]}" in text
    for proof in report["kernels"]:
        assert proof["shapes"] >= 16 and proof["runs"] > proof["shapes"] and not proof["left"]
        assert 0 < proof["error"] <= proof["tolerance"] and proof["worst"]["op"] == "softmax"
    found = {finding["name"]: finding["status"] for finding in report["findings"]}
    expected = {"ranges", "allocations", "mappings", "clock", "conservation of time", "conservation of bytes"}
    assert expected <= {name for name, status in found.items() if status == "proven"}
    assert max(map(len, text.splitlines())) <= 100


def test_a_kernel_that_is_wrong_dies_or_raises_costs_itself_only(tmp_path: Path) -> None:
    keys = [f"{op}/native/cpu/{name}" for op, name in (("softmax", "vectorized"), ("lrn", "windowed"))]
    raising, refusing = "bias_relu/native/cpu/vectorized", "bias_relu/native/cpu/reference"
    absent = "lrn/native/cpu/reference"
    faults = {"wrong": keys[0], "kill": keys[1], "raise": raising, "refuse": refusing, "absent": absent}
    environment = faulty_environment(tmp_path, **faults)

    code, text, report = run(tmp_path, "--only", "softmax,lrn,bias_relu", environment=environment)

    assert code == 1 and report["is_wrong"]
    for key in (*keys, raising):
        assert statuses(report, key) == dict.fromkeys(SETS, "wrong"), key
    assert statuses(report, "softmax/native/cpu/reference") == dict.fromkeys(SETS, "proven")
    # Instruction sets need not have the same kernels.
    assert statuses(report, absent) == {name: "proven" for name in SETS if name != "generic"}
    assert statuses(report, refusing) == dict.fromkeys(SETS, "not proven")
    reasons = {proof["key"]: proof["reason"] for proof in report["kernels"]}
    assert "exceeds the tolerance" in reasons[keys[0]] and "softmax " in reasons[keys[0]]
    assert "ended by SIGSEGV" in reasons[keys[1]] and "lrn " in reasons[keys[1]]
    assert "a fault of the test" in reasons[raising]
    assert "it refuses all" in reasons[refusing] and "it refuses for the test" in reasons[refusing]
    assert "ended by SIGSEGV" in text


def test_what_is_wrong_shows_in_the_exit_code_though_nobody_reads(tmp_path: Path) -> None:
    key = "softmax/native/cpu/reference"
    words = ["-m", "profkit.selftest", "--only", key, "--quiet"]
    environment = faulty_environment(tmp_path, wrong=key)
    with subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1 and not said


def test_a_kernel_that_works_once_or_writes_past_its_output_is_wrong(tmp_path: Path) -> None:
    once, past = "softmax/native/cpu/vectorized", "softmax/native/cpu/reference"

    code, _, report = run(tmp_path, "--only", "softmax", environment=faulty_environment(tmp_path, once=once, past=past))

    assert code == 1
    assert statuses(report, once) == statuses(report, past) == dict.fromkeys(SETS, "wrong")
    reasons = {proof["key"]: proof["reason"] for proof in report["kernels"]}
    assert "exceeds the tolerance" in reasons[once] and "it wrote outside its output" in reasons[past]


@pytest.mark.full
def test_a_kernel_that_hangs_is_given_up_and_the_rest_goes_on(tmp_path: Path) -> None:
    environment = faulty_environment(tmp_path, hang="softmax/native/cpu/vectorized")

    code, _, report = run(tmp_path, "--only", "softmax", "--timeout", "10s", environment=environment)

    assert code == 1
    # Where it hung once it is not waited for again.
    first, *others = SETS
    expected = {first: "wrong", **dict.fromkeys(others, "not proven")}
    assert statuses(report, "softmax/native/cpu/vectorized") == expected
    assert statuses(report, "softmax/native/cpu/reference") == dict.fromkeys(SETS, "proven")
    assert "no answer within 10 s" in next(proof["reason"] for proof in report["kernels"] if proof["reason"])


@pytest.mark.full
def test_everything_at_once_has_nothing_wrong_here(tmp_path: Path) -> None:
    code, text, report = run(tmp_path)

    assert code == 0, text
    assert {proof["key"] for proof in report["kernels"]} >= {
        key for op in ("conv2d", "matmul") for key in _core.kernels(op)
    }
    assert {finding["part"] for finding in report["findings"]} >= {"recorder/host", "peaks/host"}


def test_ctrl_c_leaves_what_was_found_and_no_process(tmp_path: Path) -> None:
    environment = faulty_environment(tmp_path, hang="softmax/native/cpu/vectorized")
    words = ["-m", "profkit.selftest", "--only", "softmax", "--timeout", "200s", "--quiet"]
    with subprocess.Popen(
        [sys.executable, *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        while not (hanging := tmp_path / "hanging").exists() or not hanging.read_text().endswith("\n"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=100)

    assert process.returncode == 130
    assert "interrupted" in text and not Path(f"/proc/{hanging.read_text().strip()}").exists()
    report = json.loads((tmp_path / "profkit-selftest.json").read_text())
    assert report["interrupted"] and [proof["status"] for proof in report["kernels"]] == ["not proven"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "sofftmax"], "--only sofftmax: there is"),
        (["--onyl", "softmax"], "did you mean --only?"),
        (["--timeout", "soon"], "--timeout"),
        (["softmax"], "unexpected word 'softmax'"),
        (["--json", "no/such/folder/file.json"], "no/such/folder"),
    ],
)
def test_wrong_words_are_told_before_anything_runs(words: list[str], message: str, typed: Typed) -> None:
    assert message in typed.refuses("selftest", *words)


def test_a_file_that_cannot_be_written_is_told_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    (tmp_path / FILE).mkdir()
    monkeypatch.chdir(tmp_path)

    assert "--json FILE" in typed.refuses("selftest")


@pytest.mark.full
def test_what_was_found_is_printed_though_the_disk_is_full(tmp_path: Path) -> None:
    code, text, _ = run(tmp_path, "--only", "softmax/native/cpu/reference", "--json", "/dev/full")

    assert code == 1
    assert "softmax/reference" in text and "has all of it" not in text


def test_help_has_examples_within_100_columns(typed: Typed) -> None:
    text = typed.shows("selftest", "--help")

    assert "profkit selftest --only" in text and "exit codes" in text
    assert max(map(len, text.splitlines())) <= 100
