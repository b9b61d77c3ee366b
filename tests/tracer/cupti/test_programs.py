"""From a traced program to its tables, and all the ways in which there is no CUPTI: through the doubles."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profkit import report, trace
from profkit.capture.cupti_finding import cupti_version, installed_wheels
from profkit.capture.environment import RecordingOptions
from profkit.capture.reading import read
from tests.support.processes import succeed, wait_until
from tests.tracer.cupti.gpu_programs import (
    PRELUDE,
    GpuProgram,
    device_of,
    double,
    gpu_environment,
    kernel_ranges,
    real_cupti,
    run_gpu_program,
)

STEPS = """
for _ in range(3):
    with profkit.scope("conv"):
        kernel("gemm_128x128", call(), lasts=20_000)
        time.sleep(0.001)
    with profkit.scope("pool"):
        kernel("max_pool", call(), lasts=7_000)
    copy(2, 3, 1, 1000, call(COPY), lasts=3_000)
    time.sleep(0.001)
"""


def test_trace_and_report_show_the_gpus_table_after_the_programs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, capture = tmp_path / "program.py", tmp_path / "run.profkit"
    script.write_text(PRELUDE + STEPS)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(double("driver_double").parent))
    monkeypatch.setenv("PROFKIT_CUPTI_LIBRARY", str(double("cupti_double")))
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)

    assert trace.main(["--output", str(capture), "--no-torch", "--no-allocations", str(script)]) == 0
    traced = capfd.readouterr().out
    assert report.main([str(capture)]) == 0
    reported = capfd.readouterr().out
    assert report.main([str(capture), "--by", "kernel", "--json", str(tmp_path / "kernels.json")]) == 0
    kernels = capfd.readouterr().out

    for text in (traced, reported):
        assert text.index("conv") < text.index("CUPTI")  # first the program's ranges, then the GPU's time
    assert "gemm_128x128" in kernels and "max_pool" in kernels
    data = json.loads((tmp_path / "kernels.json").read_text())
    assert data["schema"] == "profkit.usage/1"
    assert sum("gemm_128x128" in row["name"] for row in data["rows"]) == 1


def test_a_table_of_the_gpu_that_was_not_recorded_says_why(
    gpu: GpuProgram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu('kernel("lost", 1)', {"CUPTI_DOUBLE_FAIL": "cuptiSubscribe=39"})

    assert report.main([str(tmp_path / "gpu.profkit"), "--by", "operator"]) == 2

    assert "another tool in this process uses CUPTI" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"CUPTI_DOUBLE_FAIL": "cuptiSubscribe=39"}, "another tool in this process uses CUPTI"),
        ({"CUPTI_DOUBLE_FAIL": "cuptiActivityEnable:10=35"}, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"CUPTI_DOUBLE_FAIL": "cuptiActivityEnable:10=14"}, "install the CUPTI of the driver's CUDA version"),
        ({"CUPTI_DOUBLE_FAIL": "cuptiSubscribe=999"}, "is there an NVIDIA driver and a device?"),
        ({"CUPTI_DOUBLE_FAIL": "cuptiActivityRegisterCallbacks=7"}, "cuptiActivityRegisterCallbacks gives 7"),
        ({"CUPTI_DOUBLE_VERSION": "17"}, "its version 17 is not one of CUDA 12 or 13"),
        ({"CUPTI_DOUBLE_VERSION": "140000"}, "its version 140000 is not one of CUDA 12 or 13"),
        ({"CUPTI_DOUBLE_FAIL": "cuptiGetVersion=999"}, "its version 0 is not one of CUDA 12 or 13"),
    ],
)
def test_a_door_that_cannot_open_says_why_and_the_program_goes_on(
    variables: dict[str, str], sentence: str, gpu: GpuProgram
) -> None:
    capture, printed = gpu(
        'with profkit.scope("host"):\n    kernel("lost", call())\nprint(gpu.double_push_calls())', variables
    )

    assert not capture.has_device and printed.split() == ["0"]
    (warning,) = capture.warnings
    assert warning.startswith(f"process {capture.processes[0].pid}: the GPU is not recorded: ")
    assert sentence in warning
    assert "host" in [capture.range_title(row) for row in range(len(capture.ranges))]


def test_kinds_that_cupti_refuses_are_named_and_the_others_recorded(gpu: GpuProgram) -> None:
    capture, _ = gpu(
        'with profkit.scope("host"):\n    kernel("kept", call())\ngpu.double_memory(0, big(1), big(2), 3, big(0))',
        {"CUPTI_DOUBLE_FAIL": "cuptiActivityEnable:49=35,cuptiActivityEnable:17=27,cuptiSetThreadIdType=1"},
    )

    assert kernel_ranges(device_of(capture)) == {"kept": "host"} and not len(capture.memory_events["bytes"])
    (warning,) = capture.warnings
    assert "CUPTI does not record: memory (35 CUPTI_ERROR_INSUFFICIENT_PRIVILEGES), CUPTI's own cost (27" in warning
    assert warning.endswith("the threads of calls")


def test_another_tools_cupti_is_left_as_it_is(gpu: GpuProgram) -> None:
    prelude = PRELUDE.replace('ctypes.CDLL("libcuda.so.1").cuInit(0)\n', "")
    capture, printed = gpu(
        """
gpu.double_subscribe_another_tool()
gpu.cuptiActivityEnable(10)
ctypes.CDLL("libcuda.so.1").cuInit(0)
with profkit.scope("host"):
    kernel("the other tool's", call())
print(gpu.double_disable_calls(), gpu.double_push_calls())
""",
        prelude=prelude,
    )

    assert printed.split() == ["0", "0"]
    assert not capture.has_device and "another tool in this process uses CUPTI" in capture.warnings[0]


def test_a_driver_that_loaded_another_tool_is_no_gpu_without_work(gpu: GpuProgram) -> None:
    capture, _ = gpu("", {"CUDA_INJECTION64_PATH": "/opt/other/tool.so"})

    (warning,) = capture.warnings
    assert "CUDA_INJECTION64_PATH was /opt/other/tool.so when the driver started" in warning


@pytest.mark.parametrize("text", ["", 'import ctypes\nctypes.CDLL("libcuda.so.1")'])
def test_a_program_that_uses_no_gpu_is_told_nothing_about_it(text: str, gpu: GpuProgram) -> None:
    capture, _ = gpu(text, prelude="")

    assert not capture.has_device and capture.warnings == ()
    assert "cupti" not in capture.processes[0].description


def test_an_open_door_without_a_record_is_told(gpu: GpuProgram) -> None:
    capture, _ = gpu("")

    assert not capture.has_device
    assert "CUPTI was open, but gave no record: did the program use the GPU?" in capture.warnings[0]


def test_without_the_option_the_door_stays_closed(gpu: GpuProgram) -> None:
    options = RecordingOptions(allocations=False, cuda=False)
    capture, printed = gpu("print(gpu.double_flush_calls())", options=options)

    assert not capture.has_device and capture.warnings == () and printed.split() == ["0"]


@pytest.mark.parametrize(
    ("library", "sentence"),
    [("/nowhere/libcupti.so.13", "cannot open shared object file"), ("libm.so.6", "it has no function cupti")],
)
def test_a_library_that_is_none_is_told(library: str, sentence: str, gpu: GpuProgram) -> None:
    prelude = PRELUDE.replace('gpu = ctypes.CDLL(os.environ["PROFKIT_CUPTI_LIBRARY"])\n', "gpu = ctypes.CDLL(None)\n")
    prelude = prelude.replace("gpu.double_now.restype = ctypes.c_uint64\n", "")

    capture, _ = gpu("", {"PROFKIT_CUPTI_LIBRARY": library}, prelude=prelude)

    assert "the GPU is not recorded" in capture.warnings[0] and sentence in capture.warnings[0]


def test_the_real_library_without_a_driver_gives_its_own_error(gpu: GpuProgram) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    prelude = 'import ctypes, os\nctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()\n'
    variables = {"PROFKIT_CUPTI_LIBRARY": real_cupti(), "LD_LIBRARY_PATH": ""}

    capture, _ = gpu("", variables, prelude=prelude)

    (warning,) = capture.warnings
    assert "cuptiSubscribe gives 999 (CUPTI_ERROR_UNKNOWN): is there an NVIDIA driver and a device?" in warning


def test_an_installed_wheel_is_used_but_not_one_that_is_newer_than_the_driver(gpu: GpuProgram, tmp_path: Path) -> None:
    wheels = [tmp_path / f"libcupti.so.{major}" for major in (13, 12)]
    for wheel in wheels:
        wheel.write_bytes(double("cupti_double").read_bytes())
    prelude = PRELUDE.replace('"PROFKIT_CUPTI_LIBRARY"', '"CUPTI_HERE"')
    names = {"PROFKIT_CUPTI_LIBRARY": "", "PROFKIT_CUPTI_WHEELS": ":".join(map(str, wheels))}

    used = []
    for driver, place in (("13000", 0), ("12080", 1)):
        variables = {**names, "PROFKIT_DOUBLE_VERSION": driver, "CUPTI_HERE": str(wheels[place])}
        folder = tmp_path / driver
        folder.mkdir()
        capture, _ = run_gpu_program(folder, 'kernel("k", call())', variables, prelude=prelude)
        used.append(capture.processes[0].description["cupti"]["library"])
        assert kernel_ranges(device_of(capture)) == {"k": "-"}

    assert used == [str(wheel) for wheel in wheels]


def test_a_killed_program_keeps_what_was_flushed_by_its_period(tmp_path: Path) -> None:
    script, capture = tmp_path / "program.py", tmp_path / "gpu.profkit"
    script.write_text(PRELUDE + 'with profkit.scope("host"):\n    kernel("flushed", call())\ntime.sleep(1000)\n')

    with subprocess.Popen([sys.executable, str(script)], env=gpu_environment(capture)) as running:
        is_written = wait_until(lambda: capture.exists() and read(str(capture)).has_device)
        os.kill(running.pid, signal.SIGKILL)

    assert is_written
    assert kernel_ranges(device_of(read(str(capture)))) == {"flushed": "host"}


def test_a_hanging_cupti_does_not_hang_the_programs_end(gpu: GpuProgram) -> None:
    capture, _ = gpu('kernel("lost", call())', {"CUPTI_DOUBLE_HANGS": "1"})

    assert any("CUPTI did not give its last records within two seconds" in text for text in capture.warnings)


def test_a_fork_child_records_its_own_part_without_its_parents_collector(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("parent"):
    kernel("of the parent", call())
child = os.fork()
if child == 0:
    with profkit.scope("child"):
        pass
    os._exit(0)
os.waitpid(child, 0)
""")

    assert kernel_ranges(device_of(capture)) == {"of the parent": "parent"}
    assert len(capture.processes) == 2 and all(process.has_ended for process in capture.processes)
    assert "cupti" not in capture.processes[1].description


def test_captures_from_inside_start_and_stop_the_collector(tmp_path: Path) -> None:
    prelude = PRELUDE.replace('ctypes.CDLL("libcuda.so.1").cuInit(0)\n', "")
    text = f"""
from profkit import _core
for place in range(3):
    recording = profkit.record(f"{tmp_path}/{{place}}.profkit")
    with recording:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        with profkit.scope(f"range {{place}}"):
            kernel(f"kernel {{place}}", call())
        print([str(door) for door in recording.doors if door.name == "cupti"])
    kernel("in no capture", call())
"""
    script = tmp_path / "program.py"
    script.write_text(prelude + text)

    output = succeed([sys.executable, str(script)], gpu_environment(None))

    assert output.count("cupti: open, kernels, copies, memory and CUDA calls") == 3
    for place in range(3):
        capture = read(f"{tmp_path}/{place}.profkit")
        assert kernel_ranges(device_of(capture)) == {f"kernel {place}": f"range {place}"}


def test_what_the_doctor_asks_is_answered_with_a_driver() -> None:
    command = "from profkit.capture.cupti_finding import find_cupti; print(find_cupti())"

    answers = [
        succeed([sys.executable, "-c", command], gpu_environment(None) | more)
        for more in ({}, {"CUPTI_DOUBLE_FAIL": "cuptiSubscribe=39"})
    ]

    assert "version='13.0', is_usable=True, reason=''" in answers[0]
    assert "is_usable=False" in answers[1] and "another tool in this process uses CUPTI" in answers[1]


def test_versions_are_said_as_people_say_them() -> None:
    assert [cupti_version(number) for number in (0, 17, 18, 27, 130001, 130400)] == [
        "",
        "11 (CUPTI 17)",
        "11.8 to 12.1 (CUPTI 18)",
        "12 (CUPTI 27)",
        "13.0",
        "13.4",
    ]


def test_wheels_are_found_on_the_path_of_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("cuda_cupti/lib/libcupti.so.12", "cu13/lib/libcupti.so.13", "cu13/lib/libcupti.so.txt"):
        (tmp_path / "nvidia" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nvidia" / place).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "absent")])

    assert [Path(path).name for path in installed_wheels()] == ["libcupti.so.13", "libcupti.so.12"]


def test_threads_launch_into_their_own_ranges(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
import threading
def work(number):
    for _ in range(50):
        with profkit.scope(f"thread {number}"):
            kernel(f"kernel {number}", call())
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""")

    trace = device_of(capture)
    assert kernel_ranges(trace) == {f"kernel {number}": f"thread {number}" for number in range(4)}
    assert len(trace.activities["kind"]) == 200 and capture.losses.records == 0
    assert np.array_equal(trace.calls["thread"], trace.ranges["thread"][trace.calls["range"]])
