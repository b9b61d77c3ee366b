"""profkit.record: where the capture goes, what is refused, which doors are open, and who records twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import profkit
from profkit import _core
from profkit.capture.environment import (
    ITT_COLLECTOR,
    NVTX_TOOL,
    PRELOAD,
    PYTHON_PATH,
    START_UP_FOLDER,
    RecordingOptions,
    library_path,
    traced_environment,
)
from profkit.capture.reading import read
from profkit.errors import ProfkitError, UsageError
from tests.capture.recordings import Seen, record_rows, rows_of


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )


def recorded_by(tmp_path: Path, code: str) -> tuple[list[Seen], str]:
    """What a program recorded into PATH, and what it said."""
    path = tmp_path / "run.profkit"
    done = run_python(f"import os, profkit\nPATH = {str(path)!r}\n{code}")
    assert done.returncode == 0, done.stderr
    return rows_of(read(path)), done.stderr


def test_a_recording_can_run_twice_and_replaces_its_own_file(tmp_path: Path) -> None:
    recording = profkit.record(tmp_path / "run.profkit")

    states = []
    with recording, profkit.scope("first"):
        states.append(recording.is_running)
    with recording, profkit.scope("second"):
        pass
    states.append(recording.is_running)

    assert states == [True, False] and not _core.tracer_state()["is_recording"]
    assert [row.name for row in rows_of(read(recording.path))] == ["second"]


def test_what_was_flushed_can_be_read_while_the_recording_goes_on(tmp_path: Path) -> None:
    with profkit.record(tmp_path / "run.profkit") as recording:
        with profkit.scope("done"):
            pass
        recording.flush()

        names = [row.name for row in rows_of(read(recording.path))]

    assert names == ["done"]
    assert recording.dropped == 0


def test_a_scope_left_during_the_next_recording_closes_nothing_there(tmp_path: Path) -> None:
    before, now = profkit.scope("before"), profkit.scope("now")

    with profkit.record(tmp_path / "first.profkit"):
        before.__enter__()
    with profkit.record(tmp_path / "second.profkit"), now:
        before.__exit__(None, None, None)
        with profkit.scope("inside"):
            pass

    assert [(row.name, row.is_open) for row in rows_of(read(tmp_path / "first.profkit"))] == [("before", True)]
    assert [(row.name, row.parent) for row in rows_of(read(tmp_path / "second.profkit"))] == [
        ("now", None),
        ("inside", "now"),
    ]


def test_two_recordings_at_once_are_refused_with_the_first_one_s_path(tmp_path: Path) -> None:
    inner = profkit.record(tmp_path / "inner.profkit")

    with (
        profkit.record(tmp_path / "outer.profkit"),
        pytest.raises(ProfkitError, match=r"already recording into .*outer\.profkit"),
    ):
        inner.start()

    assert not (tmp_path / "inner.profkit").exists()


def test_files_and_folders_that_cannot_hold_a_capture_and_impossible_options_are_refused(tmp_path: Path) -> None:
    notes, path = tmp_path / "notes.txt", tmp_path / "run.profkit"
    notes.write_text("mine")

    with pytest.raises(UsageError, match="not a profkit capture"):
        profkit.record(notes).start()
    with pytest.raises(UsageError, match="there is no folder"):
        profkit.record(tmp_path / "absent" / "run.profkit").start()
    with pytest.raises(UsageError, match="it is a folder"):
        profkit.record(tmp_path).start()
    with pytest.raises(UsageError, match="flush_ms must be a whole number between 1 and 60000, got 0"):
        profkit.record(path, flush_ms=0)
    with pytest.raises(UsageError, match="allocations_from must be"):
        profkit.record(path, allocations_from=-1)
    assert notes.read_text() == "mine"
    assert not _core.tracer_state()["is_recording"]


def test_an_exception_inside_ends_the_recording_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.profkit"

    with pytest.raises(KeyError), profkit.record(path), profkit.scope("before"):
        raise KeyError

    assert [row.name for row in rows_of(read(path))] == ["before"]
    assert not _core.tracer_state()["is_recording"]


def test_native_kernels_open_a_range_named_by_their_key_inside_the_caller_s(tmp_path: Path) -> None:
    import numpy as np

    from profkit.ops.bias_relu import BiasRelu

    spec = BiasRelu(batch=2, channels=3, height=4, width=5)
    key, output = "bias_relu/native/cpu/reference", np.empty(spec.output_shape(), np.float32)
    call = _core.bind(key, spec.params(), list(spec.make_inputs().values()), output, None, 1)

    def run() -> None:
        with profkit.scope("step"):
            call()
            call(output)

    rows = record_rows(tmp_path, run)

    assert [(row.name, row.parent) for row in rows] == [("step", None), (key, "step"), (key, "step")]


def test_the_doors_say_what_is_open_and_how_to_open_the_rest(tmp_path: Path) -> None:
    code = (
        "import profkit\n"
        f"with profkit.record({str(tmp_path / 'run.profkit')!r}) as recording:\n"
        "    print(*recording.doors, sep='\\n')\n"
    )

    lines = run_python(code).stdout.splitlines()

    assert [line.partition(",")[0] for line in lines] == [
        "python: open",
        "nvtx: closed",
        "itt: closed",
        "allocations: closed",
        "cupti: closed",
    ]
    assert "first used while this records" in lines[1]
    assert "python -m profkit.trace" in lines[3]


def test_after_its_end_a_recording_says_what_it_had(tmp_path: Path) -> None:
    code = (
        "import profkit\n"
        "from profkit import _core\n"
        f"with profkit.record({str(tmp_path / 'first.profkit')!r}) as first:\n"
        "    inside = first.doors\n"
        "assert first.doors == inside and first.doors[0].is_open, first.doors\n"
        f"with profkit.record({str(tmp_path / 'second.profkit')!r}):\n"
        "    real = _core.tracer_state\n"
        "    _core.tracer_state = lambda: {**real(), 'dropped': 7, 'nvtx': True}\n"
        "    assert (first.doors, first.dropped) == (inside, 0)\n"
        "with first:\n"
        "    assert first.dropped == 7 and first.doors[1].is_open\n"
    )

    done = run_python(code)

    assert done.returncode == 0, done.stderr


def test_nvtx_that_is_first_used_inside_arrives_and_the_environment_is_put_back(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    rows, _ = recorded_by(
        tmp_path,
        "with profkit.record(PATH) as recording, profkit.scope('outer'):\n"
        "    import nvtx\n"
        "    with nvtx.annotate('inner'): pass\n"
        "    assert recording.doors[1].is_open, recording.doors[1]\n"
        f"assert {NVTX_TOOL!r} not in os.environ and {ITT_COLLECTOR!r} not in os.environ\n",
    )

    assert [(row.name.rpartition(":")[2], row.parent) for row in rows] == [("outer", None), ("inner", "outer")]


def test_another_tool_s_variables_are_left_alone(tmp_path: Path) -> None:
    code = (
        "import os, profkit\n"
        f"with profkit.record({str(tmp_path / 'run.profkit')!r}) as recording:\n"
        f"    print(os.environ[{NVTX_TOOL!r}], recording.doors[1])\n"
    )

    output = run_python(code, **{NVTX_TOOL: "/opt/tool.so"}).stdout

    assert output.startswith("/opt/tool.so nvtx: closed")
    assert "names another tool" in output


def test_torch_that_was_imported_too_early_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)

    with pytest.raises(UsageError, match="before `import torch`"):
        profkit.record(tmp_path / "run.profkit", torch=True).start()

    assert not (tmp_path / "run.profkit").exists()


def test_torch_s_operators_are_ranges_when_it_is_imported_inside(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows, errors = recorded_by(
        tmp_path,
        "with profkit.record(PATH, torch=True):\n"
        "    import torch\n"
        "    with profkit.scope('outer'): torch.ones(4, 4) @ torch.ones(4, 4)\n"
        "torch.ones(4, 4)\n",
    )

    assert "Leaked" not in errors
    assert ("PyTorch:aten::matmul", "outer") in [(row.name, row.parent) for row in rows]
    assert [row.name for row in rows].count("PyTorch:aten::ones") == 2


def test_a_candidate_s_range_is_named_by_its_operator_and_closed_when_it_fails(tmp_path: Path) -> None:
    import ctypes

    import numpy as np

    from profkit.errors import KernelError
    from profkit.ops.bias_relu import BiasRelu

    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    failing = signature(lambda *_: 5)
    spec = BiasRelu(batch=2, channels=3, height=4, width=5)
    output = np.empty(spec.output_shape(), np.float32)
    address = ctypes.cast(failing, ctypes.c_void_p).value
    call = _core.bind_candidate(address or 0, "bias_relu", spec.params(), list(spec.make_inputs().values()), output, 1)

    def run() -> None:
        with profkit.scope("outer"), pytest.raises(KernelError, match="error code 5"):
            call()

    rows = record_rows(tmp_path, run)

    assert [(row.name, row.parent, row.is_open) for row in rows] == [
        ("outer", None, False),
        ("bias_relu/candidate", "outer", False),
    ]


def test_the_environment_of_a_traced_process_keeps_what_was_there() -> None:
    base = {PRELOAD: "/lib/a.so /lib/b.so", PYTHON_PATH: "/home/x", "PATH": "/bin", "LANG": "C"}

    traced = traced_environment(base, "run.profkit", RecordingOptions(usage=True))

    assert traced[PRELOAD] == f"{library_path()}:/lib/a.so:/lib/b.so"
    assert traced[PYTHON_PATH] == f"{START_UP_FOLDER}{os.pathsep}/home/x"
    assert (traced["PATH"], traced["LANG"]) == ("/bin", "C")
    assert traced["PROFKIT_TRACE_FILE"] == os.path.abspath("run.profkit")
    assert "usage=1" in traced["PROFKIT_TRACE_OPTIONS"]
    assert traced_environment(traced, "run.profkit", RecordingOptions(usage=True)) == traced


def test_the_driver_is_told_to_load_the_tracer_but_not_in_another_tools_place() -> None:
    alone = traced_environment({}, "run.profkit", RecordingOptions())
    beside = traced_environment({"CUDA_INJECTION64_PATH": "/opt/tool.so"}, "run.profkit", RecordingOptions())
    without = traced_environment({}, "run.profkit", RecordingOptions(cuda=False))

    assert alone["CUDA_INJECTION64_PATH"] == library_path() and "cuda=1" in alone["PROFKIT_TRACE_OPTIONS"]
    assert beside["CUDA_INJECTION64_PATH"] == "/opt/tool.so"
    assert "CUDA_INJECTION64_PATH" not in without and "cuda=0" in without["PROFKIT_TRACE_OPTIONS"]
