"""CuPy's networks: every operator run to completion between two clock readings, inside an NVTX range of its name;
bytes from CuPy's MemoryHook.

Not run on a GPU: tested with NumPy and a fake hook in CuPy's place.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.frameworks.cupy.operators import pool_hook
from profkit.frameworks.events import MEMORY, TIME, Pass
from profkit.frameworks.events.numpy_allocations import AllocationEvent
from profkit.frameworks.events.scopes import CallFacts, RecordedCall, ScopeSource, see
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import CallWatcher, Operation

TIME_NOTE = (
    "every operator waits for the device, so that its time is its own: launches do not overlap as they do in steps "
    "that are not recorded"
)
MEMORY_NOTE = "memory: every block that CuPy's pool hands out (weights and batch were there before), in a separate pass"


class CupySource(ScopeSource):
    """As the other networks that are run call by call, on the device's terms."""

    def passes(self, conditions: NetworkConditions) -> list[Pass]:
        """Time and memory apart: a hook costs time at every allocation."""
        return [Pass("time", (TIME,), note=TIME_NOTE), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]

    @contextlib.contextmanager
    def timing(self, log: EventLog, calls: list[RecordedCall], seen: dict[str, CallFacts]) -> Iterator[CallWatcher]:
        """Each operator with the device's work; the range is for Nsight Systems and for profkit's own tracer."""
        cuda = importlib.import_module("cupy").cuda
        wait, now = cuda.get_current_stream().synchronize, time.perf_counter_ns

        def watch(operation: Operation, *arguments: Any) -> Any:
            cuda.nvtx.RangePush(operation.name)
            start = now()
            result = operation.run(*arguments)
            wait()
            calls.append(RecordedCall(operation, start, now()))
            cuda.nvtx.RangePop()
            see(seen, operation, arguments, result)
            return result

        yield watch

    @contextlib.contextmanager
    def allocations(self) -> Iterator[list[AllocationEvent]]:
        with pool_hook() as hook:
            yield hook.events


_SOURCE = CupySource("cupy")
passes, record = _SOURCE.passes, _SOURCE.record
