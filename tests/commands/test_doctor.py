"""doctor: what it finds, what it tells to type, and its exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from profkit.commands.doctor import checks as doctor_checks
from profkit.commands.doctor import tracing
from profkit.commands.doctor.gpu import gpu_summary
from profkit.errors import UnavailableError
from profkit.frameworks import BACKENDS
from profkit.frameworks.adapter import Availability, Implementation
from tests.support.typed import Typed


def test_every_section_and_backend_is_shown_within_100_columns(typed: Typed) -> None:
    text = typed.shows("doctor")

    assert [line for line in text.splitlines() if line and not line.startswith(" ")] == [
        "profkit",
        "backends",
        "environments",
        "tracing",
        "GPU",
        "tools",
        "machine",
    ]
    for name in BACKENDS:
        assert f"  {name} " in text
    assert max(map(len, text.splitlines())) <= 100
    # Tracing is tried for real.
    assert "an empty range costs" in text
    assert "attributed to ranges through LD_PRELOAD" in text


def test_without_native_kernels_the_exit_code_is_1_and_the_build_line_is_shown(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "profkit._core", None)
    monkeypatch.delattr("profkit._core", raising=False)

    code, text, _ = typed("doctor")

    assert code == 1
    assert "type: pip install -e ." in text


class Adapter:
    """An adapter with one implementation and a given availability."""

    def __init__(self, availability: Availability, environments: Sequence[dict[str, str]] = ({},)) -> None:
        self.name = "fake"
        self.availability = availability
        self.environments = environments

    def is_available(self) -> Availability:
        return self.availability

    def implementations(self, op: str) -> list[Implementation]:
        return [Implementation(f"{op}/fake/cpu", "fake", environment=item) for item in self.environments]


def use(monkeypatch: pytest.MonkeyPatch, adapter: Adapter) -> None:
    """Let doctor find this adapter only."""
    monkeypatch.setattr(doctor_checks, "BACKENDS", ("fake",))
    monkeypatch.setattr(doctor_checks, "load_adapter", lambda name: adapter)


def test_a_build_without_the_best_instruction_set_of_this_processor_is_noted() -> None:
    features = {"simd_active": "generic", "simd_compiled": ["generic", "avx512"]}

    best = doctor_checks.check_simd({**features, "simd_processor": ["generic", "avx2", "avx512"]})
    other = doctor_checks.check_simd({**features, "simd_processor": ["generic", "avx2"]})

    assert best.status == "works"
    assert (other.status, other.fix) == ("note", doctor_checks.BUILD_LINE)
    assert "compiled generic, avx512; this processor has generic, avx2" in other.detail


def test_a_missing_framework_shows_the_line_to_type(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Adapter(Availability(False, "fake is not installed", 'pip install "profkit[fake]"')))

    _, text, _ = typed("doctor")

    assert "missing  fake is not installed" in text
    assert 'type: pip install "profkit[fake]"' in text


REFUSES = doctor_checks._START.replace(
    "asked =", "def refuse(*_): raise UnavailableError('torch: this build (2.13.0+cpu) is without CUDA')\nasked ="
).replace('load_adapter(asked["adapter"]).start', "refuse")
"""As on a machine with a driver, where torch_cuda's start says what it is without."""


@pytest.mark.parametrize(
    ("program", "status", "detail", "timeout_s"),
    [
        ("raise ImportError('libfake.so.1: cannot open')", "broken", "ImportError: libfake.so.1: cannot open", 60),
        (REFUSES, "missing", "torch: this build (2.13.0+cpu) is without CUDA", 60),
        ("import os; os.kill(os.getpid(), 9)", "broken", "ended by signal 9", 60),
        ("import time; time.sleep(60)", "broken", "import did not end within 1 s", 1),
    ],
    ids=["import error", "build without CUDA", "killed", "hangs"],
)
def test_a_deep_look_says_why_a_framework_does_not_start(
    program: str, status: str, detail: str, timeout_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Adapter(Availability(True)))
    monkeypatch.setattr(doctor_checks, "_START", program)

    (check,) = doctor_checks.check_backends(deep=True, timeout_s=timeout_s)

    assert (check.status, check.detail) == (status, detail)


def test_a_deep_look_starts_each_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Adapter(Availability(True), [{"FAKE_BACKEND": "one"}, {"FAKE_BACKEND": "two"}]))
    program = "import json, os; print('noise'); print(json.dumps({'backend': os.environ['FAKE_BACKEND']}))"
    monkeypatch.setattr(doctor_checks, "_START", program)

    checks = doctor_checks.check_backends(deep=True)

    assert [(check.name, check.detail) for check in checks] == [
        ("fake (one)", "backend one"),
        ("fake (two)", "backend two"),
    ]


def test_a_deep_look_really_starts_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "BACKENDS", ("numpy",))

    (check,) = doctor_checks.check_backends(deep=True)

    assert check.status == "works"
    assert "blas" in check.detail


def test_an_adapter_that_raises_is_one_broken_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise RuntimeError(f"{name} is odd")

    monkeypatch.setattr(doctor_checks, "BACKENDS", ("fake",))
    monkeypatch.setattr(doctor_checks, "load_adapter", fail)

    (check,) = doctor_checks.check_backends()

    assert (check.status, check.detail) == ("broken", "RuntimeError: fake is odd")


def test_a_missing_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(suffix: str) -> list[str]:
        raise UnavailableError(f"no compiler for {suffix} files")

    monkeypatch.setattr("profkit.frameworks.compilers.find_compiler", fail)

    check = doctor_checks.check_tools()[0]

    assert (check.status, check.detail) == ("missing", "no compiler for .cpp files")
    assert check.fix


def test_a_missing_cuda_driver_is_said() -> None:
    check = gpu_summary("libno_such_cuda.so.1")

    assert check.status == "missing"
    assert "libno_such_cuda.so.1" in check.detail


def test_a_varying_clock_is_noted_with_the_line_to_type(tmp_path: Path) -> None:
    governor = tmp_path / "governor"
    governor.write_text("powersave\n")

    check = doctor_checks._check_governor(str(governor))

    assert check.status == "note"
    assert "cpupower" in check.fix


def test_a_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (3.5, 1.0, 1.0))

    assert doctor_checks._check_load(2).status == "note"
    assert doctor_checks._check_load(64).status == "works"


@pytest.mark.parametrize(("variable", "folder"), [("PROFKIT_CACHE", ""), ("XDG_CACHE_HOME", "profkit")])
def test_the_cache_folder_is_the_one_that_measuring_uses(
    variable: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROFKIT_CACHE", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))

    check = doctor_checks._check_cache_folder()

    assert (check.status, check.detail) == ("works", str(tmp_path / folder))


def test_findings_and_environment_are_saved(typed: Typed, tmp_path: Path) -> None:
    target = tmp_path / "doctor.json"

    code, _, _ = typed("doctor", "--json", str(target))

    data = json.loads(target.read_text())
    assert code == 0
    assert data["schema"] == "profkit.doctor/1"
    assert data["environment"]["python"]
    assert {"section", "name", "status", "detail", "fix"} == data["checks"][0].keys()


def test_a_file_that_cannot_be_written_is_said_before_looking(typed: Typed, tmp_path: Path) -> None:
    code, text, _ = typed("doctor", "--json", str(tmp_path / "no" / "doctor.json"))

    assert (code, text) == (2, "")


def test_an_unknown_flag_offers_the_nearest(typed: Typed) -> None:
    assert "did you mean --deep?" in typed.refuses("doctor", "--dep")


def test_a_missing_tracer_library_is_broken_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profkit._core.tracer_library_path", lambda: "/nowhere/libprofkit_inject.so")

    recorder = tracing.check_tracing()[0]

    assert (recorder.status, recorder.fix) == (doctor_checks.BROKEN, doctor_checks.BUILD_LINE)
    assert "/nowhere/libprofkit_inject.so" in recorder.detail
