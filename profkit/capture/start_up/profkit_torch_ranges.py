"""Turns torch's operators into ITT ranges on this thread and on every thread started later.

torch keeps its profiler's state per thread and allows one profiler at a time: a profiler that the program itself
uses takes the place of these ranges until it ends.
"""

from __future__ import annotations

import atexit
import sys
import threading

# Importing typing would cost every process milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_state = threading.local()


def turn_on(record_shapes: bool) -> None:
    """Begin on the thread that imports torch, and cover what comes."""
    from torch.autograd import profiler

    if not hasattr(profiler, "emit_itt"):
        sys.stderr.write("profkit.trace: this torch has no emit_itt; its operators are not recorded\n")
        return
    ranges = _TorchRanges(profiler, record_shapes)
    ranges.yield_to_other_profilers()
    ranges.cover_new_threads()
    ranges.enter()
    # A state left on at exit makes torch complain about a leak.
    atexit.register(ranges.leave)


class _TorchRanges:
    """emit_itt per thread, by way of torch's own class."""

    def __init__(self, profiler: Any, record_shapes: bool) -> None:
        self._profiler = profiler
        self._record_shapes = record_shapes
        self._enable = profiler._enable_profiler
        self._disable = profiler._disable_profiler

    def enter(self) -> None:
        if getattr(_state, "is_on", False):
            return
        profiler = self._profiler
        config = profiler.ProfilerConfig(
            profiler.ProfilerState.ITT,
            self._record_shapes,
            False,
            False,
            False,
            False,
            profiler._ExperimentalConfig(),
        )
        self._enable(config, set())
        _state.is_on = True

    def leave(self) -> None:
        if getattr(_state, "is_on", False):
            _state.is_on = False
            self._disable()

    def yield_to_other_profilers(self) -> None:
        """Wrap the functions with which torch's Python code begins and ends a profiler of the program."""
        from torch.autograd import profiler_legacy

        begins = [
            (self._profiler, "_prepare_profiler"),
            (self._profiler, "_enable_profiler"),
            (profiler_legacy, "_enable_profiler_legacy"),
        ]
        ends = [(self._profiler, "_disable_profiler"), (profiler_legacy, "_disable_profiler_legacy")]
        for module, name in begins:
            if hasattr(module, name):
                setattr(module, name, self._before(getattr(module, name)))
        for module, name in ends:
            if hasattr(module, name):
                setattr(module, name, self._after(getattr(module, name)))

    def _before(self, function: Any) -> Any:
        def begin(*args: Any, **kwargs: Any) -> Any:
            self.leave()
            return function(*args, **kwargs)

        return begin

    def _after(self, function: Any) -> Any:
        def end(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.enter()
            return result

        return end

    def cover_new_threads(self) -> None:
        """Threads of the threading module; one that C code starts itself has no hook."""
        original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

        def bootstrap(thread: threading.Thread) -> None:
            try:
                self.enter()
            except Exception as error:
                sys.stderr.write(f"profkit.trace: torch's operators of {thread.name!r} are not recorded: {error!r}\n")
            try:
                original(thread)
            finally:
                self.leave()

        threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]
