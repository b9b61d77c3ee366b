"""Torch's events through its own profiler, where ours cannot be compiled: steps to run enter, TorchEvents leave.

Read from the profiler's private event tree, the only form that keeps scopes, sequence numbers and addresses together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from profkit.capture.schema import NONE
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks
from profkit.frameworks.torch.raw_events import (
    LAYER,
    RUNTIME,
    TorchEvents,
    TorchThread,
    spans_around_calls,
)

SOURCE_NAME = "kineto"
_PREFIXES = {LAYER: "profkit layer ", RUNTIME: "profkit runtime "}
_SPAN = ("start_ns", "end_ns", "sequence", "forward_thread", "operands", "operand_words", "name", "parent", "scope")
_THREADED = ("thread", "pool_cpu_ns")
_ALLOCATION = ("time_ns", "address", "bytes", "span")


def record_kineto(torch: Any, layers: Mapping[str, Any], run: Callable[[], None]) -> TorchEvents:
    """Everything that torch does on this thread while `run` runs."""
    profiler = torch.profiler
    with spans_around_calls(torch, layers, _spanned(torch)):
        before = read_clocks()
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
        ) as profile:
            run()
        clock = RealtimeClock(before, read_clocks())
    roots = profile.profiler.kineto_results.experimental_event_tree()
    return _EventTreeReader(clock.ahead_ns).read(roots, clock.error_ns)


def _spanned(torch: Any) -> Callable[..., Any]:
    """Spans of the profiler itself: its quick, private kind where it has one."""
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None) or torch.profiler.record_function

    def spanned(scope: int, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        title = _PREFIXES[scope] + name

        def call(*arguments: Any, **keywords: Any) -> Any:
            with fast(title):
                return function(*arguments, **keywords)

        return call

    return spanned


class _EventTreeReader:
    def __init__(self, ahead_ns: int) -> None:
        self._ahead_ns = ahead_ns
        self._names: dict[str, int] = {}
        self._threads: dict[int, int] = {}
        self._spans: list[tuple[int, ...]] = []
        self._allocations: list[tuple[int, ...]] = []
        self._words: list[int] = []

    def read(self, roots: list[Any], clock_error_ns: int) -> TorchEvents:
        """Every event before those inside it."""
        waiting = [(event, -1) for event in sorted(roots, key=lambda each: each.start_time_ns, reverse=True)]
        while waiting:
            event, parent = waiting.pop()
            kind = event.tag.name
            if kind == "Allocation" and event.extra_fields.device.type == "cpu":
                self._allocation(event, parent)
            row = self._span(event, parent) if kind == "TorchOp" else parent
            waiting += [(child, row) for child in reversed(event.children)]
        table = np.array(self._spans, np.int64).reshape(-1, len(_SPAN) + len(_THREADED))
        allocations = np.array(sorted(self._allocations), np.int64).reshape(-1, len(_ALLOCATION))
        own_id = threading.get_native_id()
        return TorchEvents(
            SOURCE_NAME,
            list(self._names),
            [TorchThread(own_id if len(self._threads) == 1 else id_, 0, True) for id_ in self._threads],
            {name: table[:, place].copy() for place, name in enumerate((*_SPAN, *_THREADED))},
            np.array(self._words, np.int64),
            {name: allocations[:, place].copy() for place, name in enumerate(_ALLOCATION)},
            clock_error_ns=clock_error_ns,
        )

    def _span(self, event: Any, parent: int) -> int:
        fields = event.extra_fields
        name, scope = event.name, int(fields.scope)
        for own, prefix in _PREFIXES.items():
            if name.startswith(prefix):
                name, scope = name[len(prefix) :], own
        operands = len(self._words)
        for given in fields.inputs:
            self._operand(given)
        self._spans.append(
            (
                event.start_time_ns - self._ahead_ns,
                event.end_time_ns - self._ahead_ns,
                fields.sequence_number,
                0,  # the thread of the forward operator is not shown to Python
                operands if len(self._words) > operands else -1,
                len(self._words) - operands,
                self._names.setdefault(name, len(self._names)),
                parent,
                scope,
                self._threads.setdefault(event.start_tid, len(self._threads)),
                NONE,
            )
        )
        return len(self._spans) - 1

    def _operand(self, given: Any) -> None:
        if isinstance(given, (list, tuple)):
            for each in given:
                self._operand(each)
        elif hasattr(given, "sizes"):
            self._words += [len(given.sizes), *given.sizes, given.storage_data_ptr or 0]

    def _allocation(self, event: Any, parent: int) -> None:
        fields = event.extra_fields
        self._allocations.append((event.start_time_ns - self._ahead_ns, fields.ptr, fields.alloc_size, parent))
