"""The selftest's CUDA part on the doubles of the CUDA runtime, the driver and CUPTI: emulated kernels are proven, and
every seeded fault is found. None of it has run on a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.device_warnings import UNKNOWN_KINDS
from profkit.capture.schema import NONE, ActivityKind, Capture, Losses
from profkit.selftests import cuda_recorder
from profkit.selftests.findings import CheckContext, CheckResult
from profkit.selftests.recorded import run_recorded
from tests.cuda.cuda_double import double_environment, run_on_double
from tests.selftests.tampering import lose_from
from tests.tracer.cupti.gpu_programs import double

NAIVE, WARP = "matmul/native/cuda/naive", "softmax/native/cuda/warp_rows"
PARTS = "recorder/cuda,timers/cuda,peaks/cuda"
PROVEN, NOT_PROVEN, WRONG = "proven", "not proven", "wrong"


def _doubles() -> dict[str, str]:
    return {
        "LD_LIBRARY_PATH": str(double("driver_double").parent),
        "PROFKIT_CUPTI_LIBRARY": str(double("cupti_double")),
    }


@pytest.fixture(autouse=True)
def driver_and_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the doubles of libcuda and libcupti."""
    for name, value in _doubles().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)


def run(folder: Path, only: str, *words: str, **settings: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, the file, and what was printed."""
    path = folder / "selftest.json"
    asked = ["-m", "profkit.selftest", "--only", only, "--quiet", "--json", str(path), *words]
    done = run_on_double(asked, **settings)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(path.read_text()), done.stdout


def kernels(report: dict[str, Any]) -> dict[str, str]:
    return {proof["key"]: proof["status"] for proof in report["kernels"]}


def checks(report: dict[str, Any]) -> dict[str, str]:
    return {f"{item['part']}: {item['name']}": item["status"] for item in report["findings"]}


def with_status(statuses: dict[str, str], *wanted: str) -> set[str]:
    return {name for name, status in statuses.items() if status in wanted}


def test_a_kernel_is_proven(tmp_path: Path) -> None:
    code, report, text = run(tmp_path, WARP)

    assert code == 0 and kernels(report) == {WARP: PROVEN}, text
    assert report["devices"][0]["name"] == "profkit double"
    assert report["cuda"]["driver"] == "13.0" and report["cuda"]["runtime"]
    assert report["build"]["cuda"]["architectures"] and "nvcc" in report["build"]["cuda"]["compiler"]
    assert report["build"]["cuda"]["id"] != report["build"]["core"]["id"]


@pytest.mark.full
def test_kernels_recorder_timers_and_peaks_are_proven(tmp_path: Path) -> None:
    code, report, text = run(tmp_path, f"native/cuda,{PARTS}")

    assert code == 0, text
    assert len(kernels(report)) >= 20 and set(kernels(report).values()) == {PROVEN}
    runs = {proof["key"]: proof["runs"] for proof in report["kernels"]}
    # Every configuration that a tuner could choose runs too.
    assert runs["matmul/native/cuda/tiled_shared"] > 1.5 * runs["matmul/native/cuda/vectorized"] > 30
    assert with_status(checks(report), PROVEN) >= {
        "recorder/cuda: launches",
        "recorder/cuda: copies",
        "recorder/cuda: device memory",
        "recorder/cuda: clock of the device",
        "recorder/cuda: whole capture",
        "recorder/cuda: conservation of time",
        "recorder/cuda: conservation of launches",
        "recorder/cuda: conservation of bytes",
        "timers/cuda: holding kernel",
        "peaks/cuda: float32 rate and peak",
        "peaks/cuda: bandwidth rate and peak",
    }
    assert not with_status(checks(report), WRONG)
    # Each pair of clocks was compared, and agrees unless others disturbed the host.
    timers = {item["name"]: item for item in report["findings"] if item["part"] == "timers/cuda"}
    assert timers.keys() == {"holding kernel", "events of more calls", "events and wall clock", "events and CUPTI"}
    for item in timers.values():
        is_disturbed = item["detail"].endswith(("too busy to compare", "less than a wrong clock"))
        assert item["status"] == PROVEN or is_disturbed, item
    (device,) = report["devices"]
    assert device["name"] == "profkit double" and "matmul/cuda/naive" in text and "cuda 0" in text


@pytest.mark.full
@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("idle", "error inf exceeds the tolerance"),
        ("once", "error inf exceeds the tolerance"),
        ("failing", "unspecified launch failure"),
        ("hanging", "no answer within 15 s"),
        ("killing", "ended by SIGABRT"),
    ],
)
def test_a_kernel_with_a_fault_is_found_and_the_rest_goes_on(manner: str, words: str, tmp_path: Path) -> None:
    code, report, text = run(tmp_path, f"{NAIVE},{WARP}", "--timeout", "15s", manner=f"{manner}@naive")

    assert code == 1 and kernels(report) == {NAIVE: WRONG, WARP: PROVEN}, text
    (reason,) = [proof["reason"] for proof in report["kernels"] if proof["reason"]]
    assert words in reason and "matmul " in reason


_WRITES_PAST = """
import numpy as np
from profkit.frameworks.adapter import Conditions
from profkit.errors import WrongResultError
from profkit.ops.matmul import MatMul
from profkit.selftests.guarded import GuardedNativeCuda

adapter, spec = GuardedNativeCuda(), MatMul(3, 5, 7)
row = next(row for row in adapter.implementations("matmul") if row.key.endswith("/naive"))
adapter.prepare(row, spec, spec.make_inputs(), Conditions(tuned=False)).call()
adapter.check()
memory = adapter.memory["output"].inner
data = np.empty(memory.nbytes, np.uint8)
memory.download(data)
data[4 * 3 * 7] = 0
memory.upload(data)
try:
    adapter.check()
except WrongResultError as error:
    print(error)
"""


@pytest.mark.full
def test_a_byte_behind_the_output_is_found() -> None:
    done = run_on_double(["-c", _WRITES_PAST])

    assert done.stdout == "it wrote outside its output\n", done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("untold", "name"),
    [("kernel@50", "launches"), ("copy@8", "copies"), ("memory@12", "device memory")],
)
def test_what_cupti_does_not_tell_is_found(untold: str, name: str, tmp_path: Path) -> None:
    code, report, text = run(tmp_path, "recorder/cuda", untold=untold)

    assert code == 1, text
    assert with_status(checks(report), WRONG) >= {f"recorder/cuda: {name}"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("only", "settings", "name"),
    [
        # Events that tell more than the wall clock; a busy host is no excuse for that.
        ("timers/cuda", {"clock": "3"}, "timers/cuda: events and wall clock"),
        ("timers/cuda", {"manner": "idle@hold_stream"}, "timers/cuda: holding kernel"),
        ("peaks/cuda", {"khz": 1}, "peaks/cuda: bandwidth rate and peak"),
    ],
)
def test_a_timer_or_a_peak_with_a_fault_is_found(
    only: str, settings: dict[str, object], name: str, tmp_path: Path
) -> None:
    code, report, text = run(tmp_path, only, **settings)

    assert code == 1, text
    assert name in with_status(checks(report), WRONG), text


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """What the selftest's program for devices recorded of itself on the double."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**double_environment(), **_doubles()}.items():
            patch.setenv(name, value)
        patch.delenv("CUDA_INJECTION64_PATH", raising=False)
        return run_recorded("profkit.selftests.cuda_program", str(folder), 100.0)[0]


def found_in(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> dict[str, CheckResult]:
    """What the selftest says of this capture."""
    monkeypatch.setattr(cuda_recorder, "run_recorded", lambda *_: (capture, {}))
    return {finding.name: finding for finding in cuda_recorder.check(CheckContext("", 1.0, 1))}


def without_launches(capture: Capture) -> Capture:
    """No activity knows its call."""
    return replace(capture, activities=replace(capture.activities, call=np.full_like(capture.activities.call, NONE)))


def early(capture: Capture) -> Capture:
    """A kernel that begins long before its launch."""
    start = capture.activities.start_ns.copy()
    start[np.flatnonzero(capture.activities.kind == ActivityKind.KERNEL)[-1]] -= 10**9
    return replace(capture, activities=replace(capture.activities, start_ns=start))


@pytest.mark.parametrize(
    ("name", "status", "tamper"),
    [
        ("whole capture", PROVEN, lambda capture: capture),
        ("clock of the device", PROVEN, lambda capture: capture),
        ("whole capture", WRONG, lambda capture: replace(capture, losses=Losses(device=1))),
        ("clock of the device", WRONG, early),
        ("clock of the device", NOT_PROVEN, without_launches),
        ("launches", WRONG, without_launches),
    ],
)
def test_a_trace_that_was_tampered_with(
    name: str,
    status: str,
    tamper: Callable[[Capture], Capture],
    recorded: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found_in(tamper(recorded), monkeypatch)[name].status == status


@pytest.mark.parametrize(
    ("warning", "status"),
    [(f"3 {UNKNOWN_KINDS}", NOT_PROVEN), ("3 records of the GPU were lost: the disk did not keep up", WRONG)],
)
def test_what_is_lost_is_wrong_and_what_is_unknown_is_not_proven(
    warning: str, status: str, recorded: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = replace(recorded, warnings=(*recorded.warnings, warning))

    assert found_in(changed, monkeypatch)["whole capture"].status == status


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("exclusive_ns", "conservation of time"),
        ("launches", "conservation of launches"),
        ("own_alloc_bytes", "conservation of bytes"),
    ],
)
def test_a_device_table_that_loses_something_is_wrong(
    column: str, name: str, recorded: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_from(column, monkeypatch)

    found = found_in(recorded, monkeypatch)

    assert [finding.name for finding in found.values() if finding.status == WRONG] == [name]


@pytest.mark.full
def test_a_recorded_program_that_dies_or_hangs_is_found(tmp_path: Path) -> None:
    code, report, _ = run(tmp_path, "recorder/cuda", manner="killing@naive")

    assert code == 1 and with_status(checks(report), WRONG) == {"recorder/cuda: recorder"}


@pytest.mark.full
def test_without_cupti_the_recorder_is_not_proven_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPTI_DOUBLE_FAIL", "cuptiSubscribe=39")

    code, report, text = run(tmp_path, "recorder/cuda,timers/cuda")

    assert code == 0, text
    assert {"recorder/cuda: launches", "timers/cuda: events and CUPTI"} <= with_status(checks(report), NOT_PROVEN)
    assert "another tool in this process uses CUPTI" in " ".join(text.split())


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "words"),
    [({"driver": 0}, "there is no CUDA driver here"), ({"devices": 0}, "no CUDA-capable device is detected")],
)
def test_without_a_device_nothing_is_wrong(settings: dict[str, object], words: str, tmp_path: Path) -> None:
    code, report, text = run(tmp_path, f"{NAIVE},{PARTS}", **settings)

    assert code == 0 and not report["kernels"]
    assert set(checks(report).values()) == {NOT_PROVEN} and words in " ".join(text.split())
    assert "compiled kernels (1)" in text


@pytest.mark.full
def test_every_device_is_proven_by_itself(tmp_path: Path) -> None:
    log = tmp_path / "launches"

    code, report, text = run(tmp_path, WARP, devices=2, log=log)

    assert code == 0, text
    assert [proof["place"] for proof in report["kernels"]] == ["cuda 0", "cuda 1"]
    used = [json.loads(line)["device"] for line in log.read_text().splitlines()]
    assert used == sorted(used) and used.count(0) == used.count(1) > 0


@pytest.mark.full
def test_a_device_that_is_lost_ends_its_part(tmp_path: Path) -> None:
    lost = tmp_path / "lost"

    code, report, text = run(tmp_path, f"{NAIVE},{WARP}", fail="execution@3=719", lost=lost)

    assert code == 1 and kernels(report) == {NAIVE: WRONG, WARP: NOT_PROVEN}, text
