"""How a program is recorded: checked options and the environment of a traced process; nothing is started here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.cupti_finding import wheels_text
from profkit.errors import UnavailableError, UsageError

TRACE_FILE = "PROFKIT_TRACE_FILE"
TRACE_OPTIONS = "PROFKIT_TRACE_OPTIONS"
TORCH_RANGES = "PROFKIT_TORCH_RANGES"
NVTX_TOOL = "NVTX_INJECTION64_PATH"
ITT_COLLECTOR = "INTEL_LIBITTNOTIFY64"
PRELOAD = "LD_PRELOAD"
PYTHON_PATH = "PYTHONPATH"
CUDA_TOOL = "CUDA_INJECTION64_PATH"
CUPTI_WHEELS = "PROFKIT_CUPTI_WHEELS"

START_UP_FOLDER = Path(__file__).parent / "start_up"
_MAX_FLUSH_MS = 60_000
_MAX_BUFFER_MIB = 1 << 20


@dataclass(frozen=True)
class RecordingOptions:
    """What is recorded and how; the defaults are the recorder's own."""

    allocations_from: int = 1024
    """Smaller allocations are only counted."""
    allocations: bool = True
    usage: bool = False
    """Page faults and context switches per range: two system calls each."""
    children: bool = True
    """Processes started by this one are recorded too."""
    flush_ms: int = 25
    """A killed process loses about this much."""
    buffer_mib: int = 32
    cuda: bool = True
    """What the GPU does, where the program uses one."""

    def __post_init__(self) -> None:
        _check_range("allocations_from", self.allocations_from, 0, (1 << 63) - 1)
        _check_range("flush_ms", self.flush_ms, 1, _MAX_FLUSH_MS)
        _check_range("buffer_mib", self.buffer_mib, 1, _MAX_BUFFER_MIB)

    @property
    def text(self) -> str:
        """As the recorder reads them."""
        return (
            f"threshold={self.allocations_from},flush_ms={self.flush_ms},buffer_mib={self.buffer_mib},"
            f"usage={self.usage:d},allocations={self.allocations:d},children={self.children:d},"
            f"cuda={self.cuda:d}"
        )


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name} must be a whole number between {low} and {high}, got {value!r}")


def library_path() -> str:
    """The recorder's library; UnavailableError where profkit was built without it."""
    from profkit import _core

    path = _core.tracer_library_path()
    if not path or not os.path.exists(path):
        raise UnavailableError(
            f"the tracer's library is missing ({path or 'no path'}): it is built for Linux; install profkit again there"
        )
    return path


def traced_environment(
    base: Mapping[str, str], capture: str, options: RecordingOptions, torch: str = "on"
) -> dict[str, str]:
    """The environment in which a program and all it starts records into `capture`.

    `torch` is on, shapes or off: whether torch's operators become ranges.
    """
    library = library_path()
    if re.search(r"[\s:]", library):
        raise UnavailableError(f"{PRELOAD} cannot name a library with a space or colon in its path: {library}")
    preloaded = [name for name in re.split(r"[\s:]+", base.get(PRELOAD, "")) if name and name != library]
    paths = [part for part in base.get(PYTHON_PATH, "").split(os.pathsep) if part and part != str(START_UP_FOLDER)]
    # The driver loads what CUDA_INJECTION64_PATH names when a program first uses it; without a driver it is ignored.
    # Another tool's stays: two cannot share CUPTI, and the capture then says why it has no GPU records.
    for_cuda = {CUDA_TOOL: base.get(CUDA_TOOL) or library, CUPTI_WHEELS: wheels_text()} if options.cuda else {}
    return {
        **base,
        TRACE_FILE: os.path.abspath(capture),
        TRACE_OPTIONS: options.text,
        TORCH_RANGES: torch if options.children else f"{torch},alone",
        NVTX_TOOL: library,
        ITT_COLLECTOR: library,
        PRELOAD: ":".join([library, *preloaded]),
        PYTHON_PATH: os.pathsep.join([str(START_UP_FOLDER), *paths]),
        **for_cuda,
    }
