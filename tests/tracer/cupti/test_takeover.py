"""The CUPTI door beside others in the process: tools that take CUPTI's buffers or ids, forks, the ends of captures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profkit.capture.environment import RecordingOptions
from profkit.capture.reading import read
from tests.support.processes import succeed
from tests.tracer.cupti.gpu_programs import PRELUDE, GpuProgram, device_of, gpu_environment, kernel_ranges

WORK_AND_WAIT = """
def work(times):
    for _ in range(times):
        kernel("work", call())
        gpu.double_synchronise()
"""


def test_records_that_stop_while_the_program_waits_for_its_gpu_are_missed(gpu: GpuProgram) -> None:
    capture, _ = gpu(
        WORK_AND_WAIT
        + """
work(5)
flushes = gpu.double_flush_calls()
while gpu.double_flush_calls() < flushes + 2:  # when the second begins, the first has given its records
    time.sleep(0.01)
gpu.double_take_buffers()
work(12)
""",
    )

    assert len(device_of(capture).activities["kind"]) == 5
    (warning,) = capture.warnings
    assert "the program waited 12 times for its GPU, and of these calls CUPTI gave no record" in warning


def test_buffers_taken_before_the_first_record_are_no_gpu_without_work(gpu: GpuProgram) -> None:
    capture, _ = gpu(WORK_AND_WAIT + "gpu.double_take_buffers()\nwork(7)\n")

    assert not capture.has_device
    assert any("the program waited 7 times for its GPU" in text for text in capture.warnings)


@pytest.mark.parametrize("failure", ["", "cuptiEnableDomain=1", "cuptiActivityEnable:5=7,cuptiActivityEnable:4=7"])
def test_a_program_whose_records_come_is_told_nothing(failure: str, gpu: GpuProgram) -> None:
    text = WORK_AND_WAIT + "for _ in range(3):\n    work(20)\n    time.sleep(0.12)\n"

    capture, _ = gpu(text, {"CUPTI_DOUBLE_FAIL": failure})

    assert len(device_of(capture).activities["kind"]) == 60
    assert not any("waited" in warning for warning in capture.warnings)


def test_a_program_that_only_waits_after_its_last_record_was_flushed_is_told_nothing(gpu: GpuProgram) -> None:
    capture, _ = gpu(
        WORK_AND_WAIT + "work(3)\nwhile gpu.double_flush_calls() < 3:\n    time.sleep(0.01)\n",
    )

    assert capture.warnings == ()


def test_launches_of_which_no_kernel_came_are_told(gpu: GpuProgram) -> None:
    capture, _ = gpu("for _ in range(6):\n    call()\ncopy(1, 1, 3, 4096, call(COPY))\n")

    (warning,) = capture.warnings
    assert "6 launches of kernels succeeded, but CUPTI gave no record of a kernel" in warning


def test_a_kernel_launched_while_the_capture_ends_is_in_it_and_not_in_the_next(tmp_path: Path) -> None:
    text = f"""
for place in range(2):
    with profkit.record(f"{tmp_path}/{{place}}.profkit"):
        kernel(f"kernel {{place}}", call())
"""
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + text)

    succeed([sys.executable, str(script)], gpu_environment(None) | {"CUPTI_DOUBLE_LATE": "1"})

    for place in range(2):
        trace = device_of(read(f"{tmp_path}/{place}.profkit"))
        assert [trace.text(int(name)) for name in trace.activities["name"]] == [f"kernel {place}", "late"]


def test_a_flush_in_mid_run_leaves_running_kernels_to_cupti(gpu: GpuProgram) -> None:
    """A forced flush would give them without an end, and they would be lost."""
    capture, printed = gpu("""
from profkit import _core
kernel("done", call())
before = gpu.double_flush_calls()
_core.tracer_flush()
print(gpu.double_forced_flushes(), gpu.double_flush_calls() > before)
""")

    assert printed.split() == ["0", "True"]
    assert kernel_ranges(device_of(capture)) == {"done": "-"}


def test_ids_of_another_tool_are_neither_taken_for_ours_nor_popped(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("ours"):
    gpu.double_push_foreign(big(77))
    kernel("k", call())
kernel("outside", call())
last = ctypes.c_uint64()
assert gpu.cuptiActivityPopExternalCorrelationId(3, ctypes.byref(last)) == 0 and last.value == 77
""")

    trace = device_of(capture)
    assert kernel_ranges(trace) == {"k": "ours", "outside": "-"}
    assert trace.facts["calls in the range announced to CUPTI"] == 1


def test_a_fork_child_calls_neither_its_parents_cupti_nor_writes_into_its_file(gpu: GpuProgram, tmp_path: Path) -> None:
    """A lock of CUPTI may have been another thread's when the process forked."""
    capture, printed = gpu(
        f"""
kernel("of the parent", call())
with profkit.scope("open in the parent"):
    child = os.fork()
    if child == 0:
        before = gpu.double_pop_calls()
        with profkit.record("{tmp_path}/child.profkit"):
            with profkit.scope("of the child"):
                pass
        print(gpu.double_pop_calls() - before, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
""",
        options=RecordingOptions(allocations=False, children=False),
    )

    assert printed.split() == ["0"]
    child = read(str(tmp_path / "child.profkit"))
    assert capture.warnings == child.warnings == () and len(capture.processes) == len(child.processes) == 1
    assert [child.range_title(row) for row in range(len(child.ranges))] == ["of the child"]
