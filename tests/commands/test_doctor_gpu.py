"""doctor's GPU section, on machines with and without a driver: a double of libcuda answers in place of NVIDIA's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from profkit.commands.doctor import checks as doctor_checks
from profkit.commands.doctor import gpu as gpu_checks
from profkit.commands.doctor.checks import BROKEN, MISSING, NOTE, WORKS, Diagnosis
from profkit.commands.doctor.gpu import Coverage, coverage
from profkit.commands.doctor.gpu_questions import answer_of
from tests.support.typed import Typed
from tests.tracer.cupti.gpu_programs import double

A100 = f"NVIDIA A100:80:{40 << 30}"
V100 = f"Tesla V100:70:{32 << 30}"
ABSENT = "libno_such_cuda.so.1"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Processes started from here find the double as the system's driver."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(double("driver_double").parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def build_for(monkeypatch: pytest.MonkeyPatch, architectures: str, runtime_version: int = 13000) -> None:
    """profkit._cuda as a build for these architectures has it."""
    module = ModuleType("profkit._cuda")
    module.__spec__ = ModuleSpec("profkit._cuda", None)
    info = {"architectures": architectures, "compiler": "nvcc 13.0.88", "runtime_version": runtime_version}
    module.build_info = lambda: info  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "profkit._cuda", module)


def without_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "profkit._cuda", None)


def look(root: Path, library: str = "libcuda.so.1") -> dict[str, Diagnosis]:
    return {check.name: check for check in gpu_checks.check_gpus(library, root)}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


# --- No driver ---


def test_without_a_driver_the_loaders_words_are_shown_and_nothing_is_asked_to_be_typed(tmp_path: Path) -> None:
    check = look(tmp_path, ABSENT)["driver"]

    assert (check.status, check.fix) == (MISSING, "")
    assert f"{ABSENT}: cannot open shared object file" in check.detail
    assert "no NVIDIA GPU is on the PCI bus" in check.detail


def test_a_gpu_without_a_driver_is_seen_on_the_bus(tmp_path: Path) -> None:
    put(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
    put(tmp_path, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
    put(tmp_path, "sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086\n")

    check = look(tmp_path, ABSENT)["driver"]

    assert (check.status, check.fix) == (MISSING, "sudo apt install nvidia-driver-580")


def test_a_container_without_the_drivers_libraries_is_told_how_to_get_them(tmp_path: Path) -> None:
    put(tmp_path, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n")

    check = look(tmp_path, ABSENT)["driver"]

    assert check.status == BROKEN
    assert "kernel module 580.65.06 is loaded" in check.detail
    assert "--gpus all" in check.fix


# --- A driver that does not serve ---


def test_an_old_driver_is_told_with_both_versions_and_the_way_out(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_for(driver, "75-real 80-real 120")
    driver.setenv("PROFKIT_DOUBLE_VERSION", "12040")
    driver.setenv("PROFKIT_DOUBLE_DEVICES", A100)

    checks = look(tmp_path)

    assert (checks["driver"].status, checks["driver"].detail) == (WORKS, "for CUDA 12.4")
    check = checks["driver version"]
    assert check.status == BROKEN
    assert "the driver is for CUDA 12.4" in check.detail
    assert "need CUDA 13.0 or later, that is driver 580 or later" in check.detail
    assert check.fix.startswith("CUDACXX=/usr/local/cuda-12/bin/nvcc pip install")


def test_a_driver_of_the_same_generation_serves_a_later_build(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_for(driver, "80-real", runtime_version=13020)
    driver.setenv("PROFKIT_DOUBLE_VERSION", "13000")

    assert look(tmp_path)["driver version"].status == WORKS


@pytest.mark.parametrize(
    ("code", "status", "said", "typed"),
    [
        ("100", MISSING, "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE, 100)", "nvidia-smi"),
        ("0", MISSING, "for CUDA 13.0, without any device", "nvidia-smi"),
        (
            "34",
            BROKEN,
            "CUDA driver is a stub library (CUDA_ERROR_STUB_LIBRARY, 34): this is the toolkit's stub",
            "echo",
        ),
        ("803", BROKEN, "(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803): library and kernel module are of", "sudo reboot"),
        ("777", BROKEN, "unknown error (unknown error, 777)", "nvidia-smi"),
    ],
)
def test_a_driver_without_devices_speaks_for_itself(
    code: str, status: str, said: str, typed: str, driver: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver.setenv("PROFKIT_DOUBLE_INIT", code)

    check = look(tmp_path)["driver"]

    assert check.status == status
    assert said in check.detail
    assert check.fix.startswith(typed)


def test_hidden_devices_are_told_apart_from_missing_ones(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver.setenv("CUDA_VISIBLE_DEVICES", "-1")
    driver.setenv("PROFKIT_DOUBLE_INIT", "100")

    check = look(tmp_path)["driver"]

    assert (check.status, check.fix) == (MISSING, "unset CUDA_VISIBLE_DEVICES")
    assert "CUDA_VISIBLE_DEVICES is '-1'" in check.detail


def test_a_driver_that_ends_the_process_costs_one_line(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver.setenv("PROFKIT_DOUBLE_INIT", "crash")

    checks = look(tmp_path)

    assert checks["driver"].status == BROKEN
    assert "ended by signal 6" in checks["driver"].detail
    assert "NVML" in checks
    assert gpu_checks.gpu_summary().status == BROKEN


def test_a_driver_that_hangs_is_not_waited_for(driver: pytest.MonkeyPatch) -> None:
    driver.setenv("PROFKIT_DOUBLE_INIT", "hang")

    answer = answer_of("driver", "libcuda.so.1", timeout_s=2)

    assert answer == {"trouble": "no answer within 2 s"}


# --- Devices and the architectures of the build ---


def test_a_covered_device_is_shown_with_its_facts(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_for(driver, "75-real 80-real 120")
    driver.setenv("PROFKIT_DOUBLE_DEVICES", f"{A100};NVIDIA L4:89:{24 << 30}")
    put(tmp_path, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n")

    checks = look(tmp_path)

    assert checks["driver"].detail == "for CUDA 13.0, kernel module 580.65.06"
    assert (checks["CUDA kernels"].status, checks["CUDA kernels"].detail) == (
        WORKS,
        "compiled by nvcc 13.0.88 for 75-real 80-real 120",
    )
    assert (checks["GPU 0"].status, checks["GPU 0"].detail) == (
        WORKS,
        "NVIDIA A100, compute capability 8.0, 40.0 GiB, 108 multiprocessors; profkit's kernels have a binary for it",
    )
    assert checks["GPU 1"].status == WORKS
    assert gpu_checks.gpu_summary().detail == "2 devices"


def test_a_device_without_binary_and_ptx_gets_the_build_line(driver: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_for(driver, "75-real 80-real 120")
    driver.setenv("PROFKIT_DOUBLE_DEVICES", V100)

    check = look(tmp_path)["GPU 0"]

    assert check.status == BROKEN
    assert "neither binary nor PTX for it: they are for 75-real 80-real 120" in check.detail
    assert "an nvcc of CUDA 12 does" in check.detail
    assert check.fix.endswith("PROFKIT_CUDA_ARCHITECTURES=70")


@pytest.mark.parametrize(("version", "status"), [("13000", NOTE), ("12080", BROKEN)])
def test_ptx_needs_a_driver_as_new_as_the_compiler(
    version: str, status: str, driver: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build_for(driver, "75-real 80")
    driver.setenv("PROFKIT_DOUBLE_DEVICES", f"NVIDIA H100:90:{80 << 30}")
    driver.setenv("PROFKIT_DOUBLE_VERSION", version)

    check = look(tmp_path)["GPU 0"]

    assert check.status == status
    assert "PTX" in check.detail
    assert check.fix.endswith("PROFKIT_CUDA_ARCHITECTURES=90")


@pytest.mark.parametrize(
    ("architectures", "capability", "expected"),
    [
        ("75-real 80-real 120", 80, Coverage.BINARY),
        ("75-real 80-real 120", 86, Coverage.BINARY),  # a later one of the same generation
        ("86-real", 80, Coverage.NOTHING),  # an earlier one
        ("75-real 80-real", 90, Coverage.NOTHING),
        ("75-real 80", 90, Coverage.PTX),
        ("75-virtual", 75, Coverage.PTX),
        ("90-virtual", 80, Coverage.NOTHING),
        ("90a-real", 90, Coverage.BINARY),
        ("90a", 100, Coverage.NOTHING),  # its PTX stays on 9.0
        ("100f-real", 103, Coverage.BINARY),
        ("native", 80, Coverage.UNKNOWN),
        ("", 80, Coverage.NOTHING),
    ],
)
def test_coverage_follows_the_rules_of_binaries_and_ptx(
    architectures: str, capability: int, expected: Coverage
) -> None:
    assert coverage(architectures, capability) is expected


def test_kernels_that_were_not_built_are_missing_only_where_there_is_a_device(
    driver: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_build(driver)

    before = look(tmp_path)
    driver.setenv("PROFKIT_DOUBLE_DEVICES", A100)
    after = look(tmp_path)

    assert (before["CUDA kernels"].status, after["CUDA kernels"].status) == (NOTE, MISSING)
    assert after["CUDA kernels"].fix == "pip install -e . -C cmake.define.PROFKIT_CUDA=ON"
    assert after["GPU 0"].status == WORKS
    assert "driver version" not in after


def test_a_module_that_cannot_be_loaded_is_broken_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    build_for(monkeypatch, "80-real")

    def fail() -> None:
        raise ImportError("libstdc++.so.6: version GLIBCXX_3.4.32 not found")

    monkeypatch.setattr(sys.modules["profkit._cuda"], "build_info", fail)

    check = gpu_checks._check_kernels({}, gpu_checks.cuda_build())

    assert check.status == BROKEN
    assert "GLIBCXX_3.4.32" in check.detail


# --- What records and watches ---


def answers(monkeypatch: pytest.MonkeyPatch, **said: Any) -> None:
    monkeypatch.setattr(gpu_checks, "answer_of", lambda question, *words: said[question])


@pytest.mark.parametrize(
    ("found", "driver_", "status", "said", "typed"),
    [
        (("/x/libcupti.so.13", "13.0", True, ""), {}, WORKS, "CUDA 13.0 at /x/libcupti.so.13", ""),
        (
            ("", "", False, "no libcupti.so.13"),
            {"version": 13000},
            MISSING,
            "no libcupti",
            "pip install nvidia-cuda-cupti",
        ),
        (("", "", False, "none"), {"version": 12040}, MISSING, "none", "pip install nvidia-cuda-cupti-cu12"),
        (("/x", "13.0", False, "another tool has it"), {"devices": [1]}, BROKEN, "another tool has it", ""),
        (("/x", "13.0", False, "no NVIDIA driver"), {}, NOTE, "no NVIDIA driver", ""),
    ],
)
def test_cupti_is_told_with_the_next_step(
    found: tuple[str, str, bool, str],
    driver_: Mapping[str, Any],
    status: str,
    said: str,
    typed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(monkeypatch, cupti=dict(zip(("library", "version", "is_usable", "reason"), found)))

    check = gpu_checks._check_cupti(driver_)

    assert (check.status, check.fix) == (status, typed)
    assert said in check.detail


def test_cupti_is_looked_for_as_the_tracer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_CUPTI_LIBRARY", "/nowhere/libcupti.so.13")

    check = gpu_checks._check_cupti({})

    assert check.status == MISSING
    assert "/nowhere/libcupti.so.13" in check.detail


def test_nvml_is_told_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    answers(monkeypatch, nvml={"trouble": "Driver/library version mismatch"})

    here, elsewhere = gpu_checks._check_nvml({"devices": [1]}), gpu_checks._check_nvml({})

    assert (here.status, elsewhere.status) == (BROKEN, NOTE)
    assert "NVML says: Driver/library version mismatch" in here.detail


def test_a_working_nvml_shows_driver_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, nvml={"trouble": "", "driver": "580.65.06", "gpus": 4})

    check = gpu_checks._check_nvml({})

    assert (check.status, check.detail) == (WORKS, "driver 580.65.06, 4 GPUs: clocks are watched")


@pytest.mark.parametrize(
    ("params", "capabilities", "status"),
    [
        ("RmProfilingAdminOnly: 0\n", "0000000000000000", WORKS),
        ("Other: 3\nRmProfilingAdminOnly: 1\n", "0000000000000000", NOTE),
        ("RmProfilingAdminOnly: 1\n", "000001ffffffffff", WORKS),
        ("", "000001ffffffffff", NOTE),
    ],
)
def test_rights_to_counters_are_read_from_the_kernel_module(
    params: str, capabilities: str, status: str, tmp_path: Path
) -> None:
    put(tmp_path, "proc/driver/nvidia/params", params)
    put(tmp_path, "proc/self/status", f"Name:\tpython\nCapEff:\t{capabilities}\n")

    check = gpu_checks._check_counters(tmp_path)

    assert check.status == status
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.fix) == ("AdminOnly: 1" in params and status == NOTE)


# --- Frameworks ---


def test_builds_of_frameworks_are_held_against_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "torch/version.py", "__version__ = '2.9.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n")
    installed = {"torch": "2.9.0+cu130", "cupy-cuda12x": "14.2.0", "numba": "0.65.1"}
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr(gpu_checks, "installed_version", lambda name: installed.get(name, ""))

    torch, cupy, numba = gpu_checks._check_frameworks({"version": 12080})

    assert (torch.status, cupy.status, numba.status) == (BROKEN, WORKS, NOTE)
    assert torch.detail == "2.9.0+cu130 for CUDA 13.0: the driver is for CUDA 12.8, update it"
    assert cupy.detail == "14.2.0 for CUDA 12"


def test_a_build_for_the_cpu_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "torch/version.py", "__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\n")
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr(gpu_checks, "installed_version", lambda name: "2.9.0+cpu" if name == "torch" else "")

    (check,) = gpu_checks._check_frameworks({})

    assert check.status == NOTE
    assert "build for the CPU" in check.detail


# --- The whole command ---


def test_the_command_shows_driver_and_devices(driver: pytest.MonkeyPatch, typed: Typed) -> None:
    build_for(driver, "75-real 80-real 120")
    driver.setenv("PROFKIT_DOUBLE_DEVICES", f"{A100};{V100}")
    driver.setattr(doctor_checks, "BACKENDS", ("numpy",))

    out = typed.shows("doctor")

    text = out
    section = text[text.index("\nGPU\n") : text.index("\ntools\n")]
    assert "for CUDA 13.0" in section
    assert "NVIDIA A100, compute capability 8.0" in section
    assert "neither binary nor PTX" in " ".join(section.split())
    assert max(map(len, text.splitlines())) <= 100
