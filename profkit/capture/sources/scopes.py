"""Networks that profkit runs call by call: our own clock around every operator, our own eyes on its arrays.

Serves native, numpy and numba: what enters is a Program (backends/networks/layer_program.py), which calls `watch`
for each operator while one is set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from profkit.backends.networks.contract import NetworkConditions
from profkit.backends.networks.layer_program import Operation
from profkit.capture.recording import EXACT, Level, Recording, SpanLog
from profkit.capture.sources import TIME, Pass, Watched


class ScopeSource:
    """One framework whose steps are Programs."""

    def __init__(self, framework: str) -> None:
        self._framework = framework

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Time."""
        return [Pass("time", (TIME,))]

    def record(self, watched: Watched, name: str, steps: int) -> Recording:
        """Run the steps with a clock around every operator."""
        log = SpanLog(self._framework, "scopes", TIME)
        thread = log.thread(threading.get_native_id(), "main")
        rows: list[tuple[Operation, int, int, int, Any]] = []
        watched.built.model.watch = _timer(rows)
        try:
            for _ in range(steps):
                begin = time.perf_counter_ns()
                watched.step()
                log.step(begin, time.perf_counter_ns())
        finally:
            watched.built.model.watch = None
        for operation, start_ns, end_ns, pool_ns, (shapes, output_bytes) in rows:
            log.span(
                Level.OPERATOR,
                operation.name,
                start_ns,
                end_ns,
                thread,
                type=operation.type,
                layer=operation.layer or None,
                phase=operation.phase,
                implementation=operation.implementation,
                fused=operation.fused or None,
                shapes=shapes,
                output_bytes=output_bytes,
                pool_cpu_ns=max(pool_ns, 0),
                quality=EXACT,
            )
        return log.finish()


def _timer(rows: list[tuple[Operation, int, int, int, Any]]) -> Any:
    """CPU time of all other threads of the process is that of the pools: nothing else runs here.

    These clocks are system calls, so they stand outside the time of the operator.
    """
    now, process, thread = time.perf_counter_ns, time.process_time_ns, time.thread_time_ns

    def watch(operation: Operation, *arguments: Any) -> Any:
        others = process() - thread()
        start = now()
        result = operation.run(*arguments)
        end = now()
        rows.append((operation, start, end, process() - thread() - others, _about(arguments, result)))
        return result

    return watch


def _about(arguments: tuple[Any, ...], result: Any) -> tuple[str, int]:
    """Shapes as 32x3x24x24, and the bytes of the result."""
    return ", ".join("x".join(map(str, each.shape)) for each in arguments), int(result.nbytes)
