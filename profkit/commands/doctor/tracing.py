"""What doctor looks at for tracing: a tiny process is really recorded, and the capture says which doors opened."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from profkit.commands.doctor.checks import BROKEN, BUILD_LINE, MISSING, NOTE, WORKS, Diagnosis
from profkit.errors import ProfkitError

_PROGRAM = "import profkit\nwith profkit.scope('doctor'):\n    memory = bytearray(1 << 20)\n"
_TIMEOUT_S = 60.0


def check_tracing() -> list[Diagnosis]:
    """The recorder with its doors, and SQL."""
    return [*_check_recorder(), _check_nvtx(), _check_sql()]


def _check_recorder() -> list[Diagnosis]:
    try:
        from profkit.capture.environment import RecordingOptions, library_path, traced_environment
        from profkit.capture.reading import read

        library_path()
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "doctor.profkit")
            environment = traced_environment(os.environ, path, RecordingOptions(), torch="off")
            command = [sys.executable, "-c", _PROGRAM]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=_TIMEOUT_S)
            capture = read(path)
    except (ProfkitError, OSError, ImportError, subprocess.SubprocessError) as error:
        return [Diagnosis("recorder", BROKEN, str(error).strip(), BUILD_LINE)]
    if "doctor" not in [capture.range_title(row) for row in range(len(capture.ranges))]:
        return [Diagnosis("recorder", BROKEN, "a range was opened, but is not in the capture", BUILD_LINE)]
    process = capture.processes[0]
    cost = f"clock {process.clock}; an empty range costs {process.empty_range_ns:.0f} ns to record"
    allocations = Diagnosis("allocations", WORKS, "attributed to ranges through LD_PRELOAD")
    if not (capture.allocations.bytes >= 1 << 20).any():
        allocations = Diagnosis("allocations", NOTE, "LD_PRELOAD has no effect here: memory is not recorded")
    return [Diagnosis("recorder", WORKS, cost), allocations]


def _check_nvtx() -> Diagnosis:
    try:
        from profkit import _core
    except ImportError as error:
        return Diagnosis("ranges for Nsight", BROKEN, str(error), BUILD_LINE)
    if _core.build_info()["nvtx"]:
        return Diagnosis("ranges for Nsight", WORKS, "NVTX is compiled in: Nsight Systems shows profkit's ranges")
    detail = "built without nvtx3 headers: other NVTX tools do not see profkit's ranges"
    return Diagnosis("ranges for Nsight", MISSING, detail, BUILD_LINE + "   (with the CUDA toolkit installed)")


def _check_sql() -> Diagnosis:
    if importlib.util.find_spec("duckdb") is not None:
        return Diagnosis("SQL and Parquet", WORKS, "duckdb")
    return Diagnosis("SQL and Parquet", MISSING, "duckdb is not installed", 'pip install "profkit[query]"')
