"""Rows on a GPU from their workers to the result, on a fake one: how they are timed, and every way to fail."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import profkit
from profkit.frameworks.framework import no_cuda_driver
from profkit.measurement.device.timing import HELD
from profkit.measurement.result import Result, Row
from tests.support.places import ROOT
from tests.support.reopened import reopened
from tests.tracer.cupti.gpu_programs import double

GPU_MODULES = ROOT / "tests" / "support" / "gpu_modules"
SPEC = profkit.MatMul(m=8, n=8, k=8)
OTHER = profkit.MatMul(m=8, n=9, k=8)
GPU, CPU = "matmul/cupy/cuda", "matmul/numpy/cpu"
by_calls = pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.full), 40])
"""Troubles from the first call on, and while samples are taken."""
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")


def use_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake modules are found until the test ends; none of them stays loaded for the next one."""
    monkeypatch.syspath_prepend(str(GPU_MODULES))
    for name in ("cupy", "pynvml"):
        monkeypatch.setitem(sys.modules, name, sys)  # remembers what was there
        del sys.modules[name]


def make_gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine whose cupy finds a GPU, with profkit's timer and NVML."""
    modules = str(GPU_MODULES)
    monkeypatch.setenv("PYTHONPATH", f"{modules}:{ROOT}")
    use_modules(monkeypatch)
    monkeypatch.setenv("FAKE_GPU_FOLDER", str(folder))
    # Nobody looks for a driver's library then.
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Such a machine; variables that a test sets make its troubles."""
    make_gpu(monkeypatch, tmp_path)
    return monkeypatch


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One without troubles, measured with everything at its default."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_gpu(monkeypatch, tmp_path_factory.mktemp("gpu"))
        return measured()


def measured(*specs: profkit.MatMul, only: tuple[str, ...] = ("cupy", "numpy"), **options: Any) -> Result:
    """The specs on CPU and GPU; whatever happens to the GPU, the CPU's rows are there."""
    settings: dict[str, Any] = {"budget_s": 0.05, "timeout_s": 60.0, "threads": 1, **options}
    result = profkit.measure(list(specs or (SPEC,)), only=only, **settings)
    for cell in result.cells:
        row = cell.row(CPU)
        assert (row.status, bool(row.samples_ns), row.timing) == ("ok", True, ""), row.reason
    # Whatever happened, the file of it can be opened again.
    assert reopened(result).to_dict() == result.to_dict()
    return result


def gpu_row(**options: Any) -> Row:
    """The GPU's row of one cell."""
    return measured(**options).cells[0].row(GPU)


def test_a_row_on_a_gpu_is_timed_by_events_and_watched(healthy: Result) -> None:
    row = healthy.cells[0].row(GPU)

    assert (row.status, row.timing, row.note) == ("ok", HELD, "")
    assert row.median_ns is not None and row.median_ns > 0
    assert row.device == {"sm_clock_mhz": "1410 to 1410", "temperature_c": "50 to 50"}
    assert row.throttled_samples == []
    assert row.page_faults is None
    assert row.peak_bytes == 1024 + 4096 - 8 * 8 * 4
    assert row.verdict in ("faster", "slower", "same", "not resolved", "baseline")


def test_a_gpus_share_is_of_its_theoretical_peak(healthy: Result) -> None:
    row = healthy.cells[0].row(GPU)

    assert row.percent_of_peak is not None and row.gflops is not None
    assert row.percent_of_peak == pytest.approx(100.0 * row.gflops / (2e-9 * 64 * 108 * 1.41e9))


def test_cold_rows_have_one_call_per_sample(gpu: pytest.MonkeyPatch) -> None:
    row = gpu_row(cache="cold")

    assert (row.status, row.calls_per_sample, row.timing) == ("ok", 1, HELD)


def test_a_group_of_calls_never_fills_the_launch_queue(healthy: Result) -> None:
    assert healthy.cells[0].row(GPU).calls_per_sample == 50


def test_a_throttled_gpu_is_in_the_note_and_in_the_samples(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("FAKE_GPU_REASONS", "0x40")
    gpu.setenv("FAKE_GPU_MHZ", "1410,1410,900")

    row = gpu_row()

    assert row.status == "ok"
    assert len(row.throttled_samples) == len(row.samples_ns)
    assert "clock moved between 900 and 1410 MHz" in row.note
    assert "throttled by thermal limit (hardware) at up to 50 °C" in row.note
    assert f"{len(row.samples_ns)} of {len(row.samples_ns)} samples" in row.note
    assert int(row.device["samples_taken_again"]) > 0


def test_a_missing_nvml_is_said_once_and_costs_nothing(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("FAKE_GPU_HAS_NVML", "no")

    cell = measured().cells[0]

    assert cell.row(GPU).status == "ok"
    assert cell.notes == ['GPU clocks not watched: nvidia-ml-py is not installed: pip install "profkit[gpu]"']


def test_without_a_timer_the_wall_clock_is_taken_and_the_row_says_why(gpu: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("profkit._cuda") is not None:
        pytest.skip("profkit was built with CUDA")
    gpu.setenv("FAKE_GPU_HAS_TIMER", "no")

    row = gpu_row(cache="cold")

    assert row.status == "ok"
    assert row.timing.startswith("wall clock with waiting: profkit was built without CUDA")
    assert "the device's cache was not emptied" in row.timing


@needs_numba
def test_a_framework_without_a_stream_is_timed_by_the_wall_clock(gpu: pytest.MonkeyPatch) -> None:
    row = measured(only=("numba_cuda/cuda/naive", "numpy")).cells[0].row("matmul/numba_cuda/cuda/naive")

    assert row.status == "ok", row.reason
    assert row.timing == "wall clock with waiting: the framework gives no stream to put events on"


@needs_numba
def test_a_row_by_events_and_one_by_the_wall_clock_are_compared_by_the_wall_clock(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("FAKE_GPU_WAIT_S", "0.05")

    cell = measured(only=("cupy", "numba_cuda/cuda/naive", "numpy"), baseline="cupy").cells[0]

    baseline, row = cell.row(GPU), cell.row("matmul/numba_cuda/cuda/naive")
    assert baseline.timing == HELD
    assert baseline.wall_ns is not None and baseline.wall_ns >= 5e7
    assert baseline.median_ns is not None and baseline.median_ns < 5e7
    assert row.note.endswith("its ratio is of calls by the wall clock on both sides")
    assert row.ratio is not None and row.median_ns is not None
    assert row.ratio > 2.0 * baseline.median_ns / row.median_ns
    assert "wall clock" not in cell.row(CPU).note


@needs_numba
def test_memory_that_other_rows_hold_is_named_where_it_is_missing(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("FAKE_GPU_TROUBLE", "out of memory")

    cell = measured(only=("cupy", "numba_cuda/cuda/naive", "numpy")).cells[0]

    assert cell.row(GPU).status == "oom"
    assert "rows that hold memory of the device too: 1 (--only with fewer leaves more)" in cell.row(GPU).reason


@pytest.mark.skipif(not no_cuda_driver(), reason="there is a CUDA driver")
def test_without_a_driver_every_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch)

    row = gpu_row()

    assert row.status == "unavailable"
    assert "no CUDA driver here: libcuda.so.1 cannot be loaded" in row.reason


OUT_OF_MEMORY = ("out of memory", "oom", "Out of memory allocating 1,024 bytes")


@pytest.mark.parametrize(
    ("trouble", "status", "words", "after"),
    [
        ("no device", "unavailable", "no CUDA-capable device is detected", 0),
        pytest.param(
            *("old driver", "unavailable", "CUDA driver version is insufficient for CUDA runtime version", 0),
            marks=pytest.mark.full,
        ),
        pytest.param(
            *("architecture", "unavailable", "no kernel image is available for execution on the device", 0),
            marks=pytest.mark.full,
        ),
        pytest.param(*OUT_OF_MEMORY, 0, marks=pytest.mark.full),
        (*OUT_OF_MEMORY, 40),
    ],
)
def test_a_gpu_that_cannot_run_it_makes_a_row_with_the_reason(
    trouble: str, status: str, words: str, after: int, gpu: pytest.MonkeyPatch
) -> None:
    gpu.setenv("FAKE_GPU_TROUBLE", trouble)
    gpu.setenv("FAKE_GPU_AFTER", str(after))

    row = gpu_row()

    assert row.status == status
    assert words in row.reason


@by_calls
def test_a_failed_launch_costs_the_row_and_the_next_table_has_a_new_process(
    gpu: pytest.MonkeyPatch, tmp_path: Path, after: int
) -> None:
    gpu.setenv("FAKE_GPU_TROUBLE", "launch")
    gpu.setenv("FAKE_GPU_AFTER", str(after))

    first, second = (cell.row(GPU) for cell in measured(SPEC, OTHER).cells)

    assert first.status == "crashed"
    assert "unspecified launch failure" in first.reason
    assert (second.status, second.timing) == ("ok", HELD)
    assert len(set((tmp_path / "processes").read_text().split())) == 2


@needs_numba
@by_calls
def test_a_lost_device_ends_every_cuda_row_and_no_other(gpu: pytest.MonkeyPatch, after: int) -> None:
    gpu.setenv("FAKE_GPU_TROUBLE", "lost")
    gpu.setenv("FAKE_GPU_AFTER", str(after))

    cell = measured(only=("cupy", "numba_cuda/cuda/naive", "numpy")).cells[0]

    for key in (GPU, "matmul/numba_cuda/cuda/naive"):
        row = cell.row(key)
        assert row.status == "lost", row.reason
        assert row.reason.startswith(f"the CUDA device was lost while {GPU} ran: CUDARuntimeError: cudaErrorUnknown")
        assert "a new process says: cupy: cudaErrorNoDevice: no CUDA-capable device is detected" in row.reason
        assert row.median_ns is None


def test_a_device_that_stays_lost_is_asked_for_once_more_in_the_next_table(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("FAKE_GPU_TROUBLE", "lost")

    first, second = (cell.row(GPU) for cell in measured(SPEC, OTHER).cells)

    assert first.status == "lost"
    assert second.status == "unavailable"
    assert "no CUDA-capable device is detected" in second.reason


def test_rows_are_of_all_devices(healthy: Result) -> None:
    assert sorted(row.key for row in healthy.cells[0].rows) == sorted([CPU, GPU])


@pytest.mark.parametrize(("device", "keys"), [("cpu", [CPU]), ("cuda", [GPU])])
def test_the_device_chooses_the_rows(gpu: pytest.MonkeyPatch, device: str, keys: list[str]) -> None:
    result = profkit.measure(SPEC, only=("cupy", "numpy"), device=device, threads=1, budget_s=0.05)

    assert sorted(row.key for row in result.cells[0].rows) == sorted(keys)
    assert all(row.status == "ok" for row in result.cells[0].rows)


def test_kernel_time_is_what_cupti_recorded(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("LD_LIBRARY_PATH", str(double("driver_double").parent))
    gpu.setenv("PROFKIT_CUPTI_LIBRARY", str(double("cupti_double")))

    result = measured(kernel_time=True)

    row = result.cells[0].row(GPU)
    assert (row.status, row.kernel_ns) == ("ok", 5000.0), result.cells[0].notes
    assert row.samples_ns
    assert result.cells[0].row(CPU).kernel_ns is None
    assert "kernels" in str(result)


def test_without_cupti_the_row_keeps_its_time_and_the_table_says_why(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("PROFKIT_CUPTI_LIBRARY", "/nowhere/libcupti.so")
    gpu.setenv("LD_LIBRARY_PATH", str(double("driver_double").parent))

    cell = measured(kernel_time=True).cells[0]

    assert (cell.row(GPU).status, cell.row(GPU).kernel_ns) == ("ok", None)
    assert len(cell.notes) == 1
    assert cell.notes[0].startswith(f"no kernel time: {GPU}: CUPTI recorded nothing: ")
    assert "/nowhere/libcupti.so" in cell.notes[0]
