"""The selftest's own checks: a capture that was tampered with, a rate that is impossible, a peak that is too low."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from profkit.capture.schema import NONE, Capture
from profkit.frameworks.adapter import Implementation
from profkit.measurement.workers.process import WorkerFailure
from profkit.selftests import check_process, cuda_timers, host_peaks, host_program, host_recorder, worker
from profkit.selftests.check_process import OUT_OF_TIME, CheckProcess, TimeLimit
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, CheckResult, KernelProof, SelftestReport
from profkit.selftests.host_peaks import judge_peak, judge_rate
from profkit.selftests.kernels import prove_kernels
from profkit.selftests.recorded import run_recorded
from profkit.selftests.table import kernel_table
from tests.selftests.tampering import lose_from


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, dict[str, Any]]:
    """What the selftest's program recorded of itself."""
    folder = tmp_path_factory.mktemp("selftest")
    return run_recorded("profkit.selftests.host_program", str(folder), 100.0)


Look = Callable[..., dict[str, CheckResult]]


@pytest.fixture
def look(recorded: tuple[Capture, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Look:
    """What the selftest says of the capture after somebody tampered with it."""

    def say(tamper: Callable[[Capture], Capture] = lambda capture: capture, **did: object) -> dict[str, CheckResult]:
        changed = (tamper(recorded[0]), {**recorded[1], **did})
        monkeypatch.setattr(host_recorder, "run_recorded", lambda *_: changed)
        return {finding.name: finding for finding in host_recorder.check(CheckContext(str(tmp_path), 1.0, 1))}

    return say


def rows_of(capture: Capture, name: str) -> Any:
    return np.flatnonzero([capture.strings[number] == name for number in capture.ranges.name])


def renamed(capture: Capture, row: int) -> Capture:
    """A range that has another name: its own is missing."""
    name = capture.ranges.name.copy()
    name[row] = (name[row] + 1) % len(capture.strings)
    return replace(capture, ranges=replace(capture.ranges, name=name))


def longer(capture: Capture, row: int, ns: int) -> Capture:
    end = capture.ranges.end_ns.copy()
    end[row] += ns
    return replace(capture, ranges=replace(capture.ranges, end_ns=end))


def without_allocation(capture: Capture) -> Capture:
    size = capture.allocations.bytes.copy()
    size[np.flatnonzero(size == host_program.BYTES)[0]] = 8
    return replace(capture, allocations=replace(capture.allocations, bytes=size))


def without_release(capture: Capture) -> Capture:
    freed = capture.allocations.free_time_ns.copy()
    of_program = (capture.allocations.bytes == host_program.BYTES) & (freed != NONE)
    freed[np.flatnonzero(of_program)[0]] = NONE
    return replace(capture, allocations=replace(capture.allocations, free_time_ns=freed))


def test_an_untouched_capture_is_proven(look: Look) -> None:
    found = look()

    assert {finding.status for finding in found.values()} <= {PROVEN, NOT_PROVEN}
    assert found["ranges"].status == found["allocations"].status == found["clock"].status == PROVEN


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        ("ranges", lambda capture: renamed(capture, rows_of(capture, "selftest inner")[5])),
        ("ranges", lambda capture: renamed(capture, rows_of(capture, "selftest child")[0])),
        ("ranges", lambda capture: renamed(capture, rows_of(capture, "selftest mark")[1])),
        ("clock", lambda capture: longer(capture, rows_of(capture, "selftest clock")[2], 1_000_000)),
        ("allocations", without_allocation),
        ("allocations", without_release),
        ("whole capture", lambda capture: replace(capture, losses=replace(capture.losses, records=1))),
    ],
)
def test_what_differs_from_what_the_program_did_is_wrong(
    name: str, tamper: Callable[[Capture], Capture], look: Look
) -> None:
    assert look(tamper)[name].status == WRONG


def test_nvtx_ranges_that_are_missing_are_wrong(look: Look) -> None:
    def without(capture: Capture) -> Capture:
        first = rows_of(capture, "selftest nvtx")[:1]
        return renamed(capture, first[0]) if len(first) else capture

    assert look(without, has_nvtx=True)["NVTX ranges"].status == WRONG


@pytest.mark.parametrize(
    ("column", "name"), [("exclusive_ns", "conservation of time"), ("own_alloc_bytes", "conservation of bytes")]
)
def test_a_table_that_loses_a_nanosecond_or_a_byte_is_wrong(
    column: str, name: str, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_from(column, monkeypatch)

    assert [finding.name for finding in look().values() if finding.status == WRONG] == [name]


def test_without_ld_preload_allocations_are_not_proven(look: Look) -> None:
    def emptied(capture: Capture) -> Capture:
        columns = {name: getattr(capture.allocations, name)[:0] for name in capture.allocations.__dataclass_fields__}
        return replace(capture, allocations=replace(capture.allocations, **columns))

    found = look(emptied)

    assert {found[name].status for name in ("allocations", "mappings", "conservation of bytes")} == {NOT_PROVEN}


@pytest.mark.parametrize(
    ("measured", "excuse", "status"),
    [
        ([1e9, 1.1e9], "", PROVEN),
        ([1e9, 2e9], "", NOT_PROVEN),
        ([1e9, 1e9], "others used half of it", NOT_PROVEN),
        ([0.0, 1e9], "", WRONG),
        ([float("inf"), 1e9], "", WRONG),
    ],
)
def test_two_measurements_of_a_peak(measured: list[float], excuse: str, status: str) -> None:
    assert judge_peak("float32", "FLOP/s", measured, excuse).status == status


@pytest.mark.parametrize(("size_bytes", "l3_bytes", "has_excuse"), [(512, 0, True), (512, 65, True), (512, 64, False)])
def test_caches_excuse_a_bandwidth_only_where_they_may_hold_the_data(
    size_bytes: int, l3_bytes: int, has_excuse: bool
) -> None:
    assert bool(host_peaks.cached_data_note(size_bytes, l3_bytes)) == has_excuse


@pytest.mark.parametrize(
    ("ratio", "is_busy", "status"),
    [
        (0.95, False, PROVEN),
        (1.09, True, PROVEN),
        (1.2, False, NOT_PROVEN),
        (0.8, False, NOT_PROVEN),
        (1.45, False, NOT_PROVEN),
        (1.6, False, WRONG),
        (1.6, True, NOT_PROVEN),
        (0.6, True, WRONG),
    ],
)
def test_two_clocks(ratio: float, is_busy: bool, status: str) -> None:
    assert cuda_timers.judge_clocks("events and wall clock", "", ratio, {}, is_busy).status == status


class Clocks:
    """A stopwatch whose calls take so long by events and by the wall clock."""

    def __init__(self, event_ns: float, wall_ns: float) -> None:
        self.event_ns, self.wall_ns = event_ns, wall_ns

    def once(self, calls: int, is_cold: bool) -> float:
        return self.event_ns

    def waited(self, call: Any, is_cold: bool) -> float:
        return self.wall_ns


@pytest.mark.parametrize(
    ("event_ns", "wall_ns", "status"),
    [
        (1e6, 1.02e6, PROVEN),
        (1e6, 1.1e6, PROVEN),
        (1e6, 1.4e6, NOT_PROVEN),
        (1e6, 2e6, WRONG),
        (1.4e6, 1e6, NOT_PROVEN),
        (2e6, 1e6, WRONG),
        (0.0, 1e6, WRONG),
    ],
)
def test_events_against_the_wall_clock(
    event_ns: float, wall_ns: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_timers, "processor_use", lambda *_: None)
    monkeypatch.setattr(cuda_timers, "LEAST_S", 0.0)
    clocks: Any = Clocks(event_ns, wall_ns)
    prepared: Any = SimpleNamespace(call=None)

    assert cuda_timers._wall(prepared, clocks, "a product").status == status


@pytest.mark.parametrize(
    ("statuses", "status", "tries"),
    [
        ([WRONG, PROVEN], PROVEN, 2),
        ([WRONG, NOT_PROVEN, WRONG], NOT_PROVEN, 3),
        ([WRONG, WRONG, WRONG], WRONG, 3),
    ],
)
def test_clocks_are_wrong_when_they_are_in_every_try(statuses: list[str], status: str, tries: int) -> None:
    left = list(statuses)

    found = cuda_timers._repeated(lambda: CheckResult("events", left.pop(0), ""))

    assert found.status == status and len(statuses) - len(left) == tries


@pytest.mark.parametrize(
    ("rate", "excuse", "status"),
    [
        (0.9e9, "", PROVEN),
        (1.05e9, "", PROVEN),
        (1.5e9, "", WRONG),
        (1.5e9, "others used half of it", NOT_PROVEN),
        (3.5e9, "others used half of it", WRONG),
    ],
)
def test_a_rate_above_the_peak_cannot_be(rate: float, excuse: str, status: str) -> None:
    finding = judge_rate("float32, a kernel", "FLOP/s", rate, 1e9, "a kernel", excuse)

    assert finding.status == status


@pytest.mark.parametrize(("flags", "is_virtual"), [("fpu hypervisor avx2", True), ("fpu avx2", False)])
def test_a_virtual_machine_is_known_by_its_processors_flags(flags: str, is_virtual: bool, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n")

    assert host_peaks.is_virtual(cpuinfo) == is_virtual
    assert not host_peaks.is_virtual(tmp_path / "missing")


def test_a_device_is_brought_up_within_the_time_of_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, float]] = []

    def answer(_: object, limit_s: float, request: object) -> dict[str, Any]:
        asked.append((request, limit_s))
        return {}

    monkeypatch.setattr(check_process, "WorkerProcess", lambda *_: SimpleNamespace(kill=lambda: None))
    monkeypatch.setattr(check_process, "ask_one", answer)

    with closing(CheckProcess("cuda 0", {}, 1, TimeLimit(2.0, None), uses_device=True)) as process:
        process.ask({"do": "run_kernel"})

    assert asked == [({"do": "start", "uses_device": True}, check_process.START_S), ({"do": "run_kernel"}, 2.0)]


@pytest.mark.parametrize(
    ("request_name", "uses_device", "kills", "status"),
    [
        ("run_kernel", False, [3, 3], WRONG),
        ("run_kernel", False, [3, 4], NOT_PROVEN),
        ("run_kernel", True, [3, 3], NOT_PROVEN),
        ("part", False, [3, 3], NOT_PROVEN),
    ],
)
def test_a_cpu_kernel_that_finds_no_memory_is_wrong_unless_the_system_had_none(
    request_name: str, uses_device: bool, kills: list[int], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: object, limit_s: float, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] != "start":
            raise WorkerFailure("oom", "std::bad_alloc")
        return {}

    monkeypatch.setattr(check_process, "WorkerProcess", lambda *_: SimpleNamespace(kill=lambda: None))
    monkeypatch.setattr(check_process, "ask_one", answer)
    monkeypatch.setattr(check_process, "oom_kills", lambda: kills.pop(0))

    with (
        closing(CheckProcess("kernels", {}, 1, TimeLimit(2.0, None), uses_device)) as process,
        pytest.raises(WorkerFailure) as caught,
    ):
        process.ask({"do": request_name})

    assert check_process.status_of(caught.value)[0] == status


class Answers:
    """A process that offers one run of one shape, and refuses another."""

    def __init__(self, is_taken_elsewhere: bool, hangs: bool = False) -> None:
        refused = {"refused": "no bfloat16", "is_taken_elsewhere": is_taken_elsewhere, "runs": []}
        self.offered = [{"refused": "", "is_taken_elsewhere": False, "runs": [("", 1)]}, refused]
        self.hangs = hangs
        self.runs = 0

    def ask(self, request: dict[str, Any], limit_s: float | None = None) -> dict[str, Any]:
        if request["do"] == "kernel_runs":
            return {"shapes": self.offered}
        self.runs += 1
        if self.hangs:
            raise WorkerFailure("timeout", "no answer within 20 s")
        return {"max_error": 0.0, "tolerance": 1e-6, "spec": {}}


def proofs_of(answers: Any, *keys: str, forms: str = "") -> list[KernelProof]:
    options = {"kernel": keys[0], "forms": forms} if forms else {}
    rows = [Implementation(key, "native", options=options if key != keys[0] else {}) for key in keys]
    proofs: list[KernelProof] = []
    for place in ("generic", "avx2"):
        prove_kernels(answers, rows, place, 1, False, lambda *_: None, proofs)
    return proofs


@pytest.mark.parametrize("is_taken_elsewhere", [True, False])
def test_a_kernel_that_refuses_here_what_it_takes_elsewhere_is_not_proven(is_taken_elsewhere: bool) -> None:
    proof = proofs_of(Answers(is_taken_elsewhere), "softmax/native/cuda/warp_rows")[0]

    assert proof.status == (NOT_PROVEN if is_taken_elsewhere else PROVEN)
    assert (proof.reason == "it refuses 1 shapes that it takes elsewhere: no bfloat16") == is_taken_elsewhere


@pytest.mark.parametrize(
    ("of_generic", "status"),
    [
        (KernelProof("a", "generic", "a", refused=3, reason="it refuses all 3 shapes"), PROVEN),
        (KernelProof("a", "generic", "a", reason="it hung on avx2"), NOT_PROVEN),
        (KernelProof("a", "generic", "a", refused=1, left=2, reason="out of time"), NOT_PROVEN),
        (KernelProof("a", "generic", "a", WRONG, refused=3), WRONG),
    ],
)
def test_an_instruction_set_that_a_kernel_is_not_for_makes_it_no_less_proven(
    of_generic: KernelProof, status: str
) -> None:
    proven = KernelProof("a", "avx2", "a", PROVEN, shapes=3, runs=3)
    report = SelftestReport({}, False, [], kernels=[of_generic, proven])

    (line,) = kernel_table(report).lines

    assert line.texts[-1] == status


def test_forms_that_are_refused_for_the_same_reason_share_a_line() -> None:
    answers = Answers(False)
    refusals = [*["no portable code"] * 3, "no bfloat16"]
    answers.offered = [{"refused": reason, "is_taken_elsewhere": False, "runs": []} for reason in refusals]
    plain = proofs_of(answers, "conv2d/native/cpu/direct")
    answers.offered[0]["refused"] = "NHWC already"

    forms = proofs_of(answers, "conv2d/native/cpu/direct/nhwc")

    table = kernel_table(SelftestReport({}, False, [], kernels=[*plain, *forms]))
    assert [item.text for item in table.items] == ["on generic, avx2: it refuses all 4 shapes: no portable code"]
    assert forms[0].refusals == {"NHWC already": 1, "no portable code": 2, "no bfloat16": 1}


def test_what_hung_is_not_tried_in_other_forms_and_on_other_sets() -> None:
    answers = Answers(False, hangs=True)

    proofs = proofs_of(answers, "conv2d/native/cpu/direct", "conv2d/native/cpu/direct/nhwc", forms="nhwc")

    assert [proof.status for proof in proofs] == [WRONG, NOT_PROVEN, NOT_PROVEN, NOT_PROVEN] and answers.runs == 1
    assert {proof.reason for proof in proofs[1:]} == {"it hung on generic: not tried here"}


@pytest.mark.parametrize("uses_device", [True, False])
def test_a_start_makes_the_first_call_of_the_runtime(uses_device: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    runtime = SimpleNamespace(use_device=lambda _: made.append("use"), synchronize=lambda _: made.append("wait"))
    monkeypatch.setattr(worker, "cuda_module", lambda: runtime)
    monkeypatch.setattr(worker, "cuda_device", lambda: made.append("device"))

    worker.SelftestWorker().do_start(uses_device)

    assert made == (["device", "use", "wait"] if uses_device else [])


def test_when_the_time_is_over_nothing_is_started() -> None:
    with closing(CheckProcess("late", {}, 1, TimeLimit(20.0, 0.0))) as process, pytest.raises(WorkerFailure) as caught:
        process.ask({"do": "devices"})

    assert caught.value.status == OUT_OF_TIME
