"""`profkit.record`: recording from inside a program. A path in, a capture file out, and for each door whether
it is open and why not."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from html import escape
from types import TracebackType
from typing import Any, ParamSpec

from profkit import _core
from profkit.capture.cupti_finding import wheels_text
from profkit.capture.environment import (
    CUDA_TOOL,
    CUPTI_WHEELS,
    ITT_COLLECTOR,
    NVTX_TOOL,
    RecordingOptions,
    library_path,
)
from profkit.capture.output_files import claim_target
from profkit.errors import ProfkitError, UsageError, check_names

Parameters = ParamSpec("Parameters")
_HOW = "it must be set when the process starts: run python -m profkit.trace"


@dataclass(frozen=True)
class Door:
    """One way for events to come in."""

    name: str
    is_open: bool
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {'open' if self.is_open else 'closed'}, {self.detail}"


class RecordingSession:
    """A capture of this process: `with record(...)`, or start() and stop(). It may run several times in turn."""

    def __init__(self, path: str | os.PathLike[str], options: RecordingOptions, torch: bool) -> None:
        self.path = os.path.abspath(path)
        self.options = options
        self._torch = torch
        self._is_running = False
        self._variables: list[str] = []
        self._torch_ranges: Any = None
        self._last_doors: tuple[Door, ...] | None = None
        self._last_dropped = 0

    @property
    def is_running(self) -> bool:
        """Whether this very object records now."""
        return self._is_running

    @property
    def doors(self) -> tuple[Door, ...]:
        """What can reach the capture, and what would be needed for the rest; after its end, what could."""
        if self._last_doors is not None:
            return self._last_doors
        state = _core.tracer_state()
        return (
            Door("python", state["is_recording"], "profkit.scope, profkit.mark and profkit's own kernels"),
            *(_door(*each, state) for each in _OF_LIBRARIES[:2]),
            Door(
                "allocations",
                state["allocations"],
                "malloc's family and mappings" if state["allocations"] else f"LD_PRELOAD is needed, and {_HOW}",
            ),
            _door(*_OF_LIBRARIES[2], state),
        )

    def start(self) -> RecordingSession:
        """Record from now on. Under profkit.trace this changes nothing: the outer capture has everything."""
        state = _core.tracer_state()
        if state["is_recording"] and not state["is_started_here"]:
            warnings.warn(
                f"profkit.trace already records this program into {state['path']}; nothing goes to {self.path}",
                RuntimeWarning,
                stacklevel=3 if sys._getframe(1).f_globals.get("__name__") == __name__ else 2,
            )
            return self
        if state["is_recording"]:
            raise ProfkitError(f"already recording into {state['path']}; stop that capture first")
        if self._torch:
            self._check_torch()
        library = library_path()
        if self.options.cuda:
            self._set(CUPTI_WHEELS, wheels_text())
        _core.tracer_start(os.fsencode(claim_target(self.path)), self.options.text)
        self._is_running = True
        self._last_doors = None
        self._announce(library)
        if self._torch:
            self._emit_torch_ranges()
        return self

    def stop(self) -> None:
        """End the capture; the file is complete then. Does nothing when this object does not record."""
        if not self._is_running:
            return
        self._last_doors = self.doors
        self._is_running = False
        if self._torch_ranges is not None:
            self._torch_ranges.__exit__(None, None, None)
            self._torch_ranges = None
        for name in self._variables:
            os.environ.pop(name, None)
        self._variables = []
        _core.tracer_stop()
        self._last_dropped = _core.tracer_state()["dropped"]

    def flush(self) -> None:
        """All that was recorded so far is in the file when this returns."""
        _core.tracer_flush()

    @property
    def dropped(self) -> int:
        """Records that were lost so far, or until its end."""
        return self._last_dropped if self._last_doors is not None else _core.tracer_state()["dropped"]

    def __repr__(self) -> str:
        """What it does or did, with its doors; profkit.open shows what was recorded."""
        if self._is_running:
            head = f"recording into {self.path}, {self.dropped:,} records lost so far"
        elif self._last_doors is None:
            return f"a recording into {self.path}, not begun: start() or `with` begins it"
        else:
            head = f"recorded into {self.path}, {self.dropped:,} records lost; profkit.open({self.path!r}) shows it"
        return "\n".join([head, *(f"  {door}" for door in self.doors)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __enter__(self) -> RecordingSession:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _announce(self, library: str) -> None:
        """Doors that are looked for later (by NVTX and CUDA at their first call, by torch at its import) still open."""
        for name in (NVTX_TOOL, ITT_COLLECTOR, *([CUDA_TOOL] if self.options.cuda else [])):
            self._set(name, library)

    def _set(self, name: str, value: str) -> None:
        if not os.environ.get(name):
            os.environ[name] = value
            self._variables.append(name)

    def _check_torch(self) -> None:
        if "torch" in sys.modules and not _core.tracer_state()["itt"]:
            raise UsageError(
                "torch=True: torch was imported before recording began and has looked for its ITT collector already; "
                "start the recording before `import torch`, or run python -m profkit.trace"
            )

    def _emit_torch_ranges(self) -> None:
        from torch.autograd.profiler import emit_itt

        self._torch_ranges = emit_itt()
        self._torch_ranges.__enter__()


def _named_options(function: Callable[Parameters, RecordingSession]) -> Callable[Parameters, RecordingSession]:
    """Have a wrong name answered with the nearest one."""
    known = list(function.__kwdefaults__ or ())

    @wraps(function)
    def call(*words: Parameters.args, **options: Parameters.kwargs) -> RecordingSession:
        check_names(f"profkit.{function.__name__}", options.keys() - {"path"}, known)
        return function(*words, **options)

    return call


@_named_options
def record(
    path: str | os.PathLike[str],
    *,
    allocations_from: int = RecordingOptions.allocations_from,
    usage: bool = False,
    children: bool = True,
    flush_ms: int = RecordingOptions.flush_ms,
    buffer_mib: int = RecordingOptions.buffer_mib,
    torch: bool = False,
    cuda: bool = True,
) -> RecordingSession:
    """Record this process into `path`: `with profkit.record("run.profkit"):`.

    Python scopes and profkit's kernels always arrive; `.doors` says what else can, and why not. `torch=True`
    turns torch's operators on this thread into ranges; torch must not be imported yet. `children` are
    processes forked from this one. `cuda=False` leaves out what a GPU does.
    """
    options = RecordingOptions(
        allocations_from=allocations_from,
        usage=usage,
        children=children,
        flush_ms=flush_ms,
        buffer_mib=buffer_mib,
        cuda=cuda,
    )
    return RecordingSession(path, options, torch)


# Doors that a library opens by the path in a variable when it is first used; where a module is there, it was already.
_OF_LIBRARIES = (
    ("nvtx", NVTX_TOOL, "NVTX ranges of all libraries", "NVTX is first used", "nvtx", "NVTX was used"),
    (
        "itt",
        ITT_COLLECTOR,
        "ITT tasks: torch under emit_itt, oneDNN",
        "torch is imported",
        "torch",
        "torch was imported",
    ),
    ("cupti", CUDA_TOOL, "kernels, copies, memory and CUDA calls", "CUDA is first used", "", ""),
)  # fmt: skip


def _door(name: str, variable: str, offers: str, when: str, module: str, late: str, state: Mapping[str, Any]) -> Door:
    tool, problem = os.environ.get(variable, ""), state.get(f"{name}_message", "")
    if state[name]:
        return Door(name, True, f"{offers}; {problem}" if problem else offers)
    if problem:
        return Door(name, False, problem)
    if tool and tool != _core.tracer_library_path():
        return Door(name, False, f"{variable} names another tool: {tool}")
    if module in sys.modules:
        return Door(name, False, f"{late} before recording began, and {_HOW}")
    return Door(name, False, f"it opens when {when} while this records")
