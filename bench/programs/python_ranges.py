"""One case of bench/tracer_overhead.py in a separate process: `python bench/programs/python_ranges.py CASE` prints the
nanoseconds of one begin + end, the loop around it taken off."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

PAIRS, BATCHES = 500_000, 50
Loop = Callable[[int], None]


def empty_loop(pairs: int) -> None:
    for _ in range(pairs):
        pass


def blocks_of(scope: AbstractContextManager[Any]) -> Loop:
    """A held object entered again and again."""

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with scope:
                pass

    return loop


@contextmanager
def held_scope() -> Iterator[Loop]:
    import profkit

    yield blocks_of(profkit.scope("range"))


@contextmanager
def new_scope() -> Iterator[Loop]:
    from profkit import scope

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with scope("range"):
                pass

    yield loop


@contextmanager
def lock() -> Iterator[Loop]:
    yield blocks_of(threading.Lock())


@contextmanager
def new_scope_of_module() -> Iterator[Loop]:
    import profkit

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with profkit.scope("range"):
                pass

    yield loop


@contextmanager
def nvtx_push_range() -> Iterator[Loop]:
    import nvtx

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            nvtx.push_range("range")
            nvtx.pop_range()

    yield loop


@contextmanager
def nvtx_annotate() -> Iterator[Loop]:
    import nvtx

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with nvtx.annotate("range"):
                pass

    yield loop


@contextmanager
def record_function() -> Iterator[Loop]:
    import torch

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with torch.profiler.record_function("range"):
                pass

    yield loop


@contextmanager
def record_function_on() -> Iterator[Loop]:
    import torch

    # Starting, stopping and post-processing the profiler stay outside of what is timed.
    with record_function() as loop, torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield loop


@contextmanager
def viztracer_event() -> Iterator[Loop]:
    import viztracer

    # Only the events asked for: Python functions are not traced, as profkit traces none either.
    tracer = viztracer.VizTracer(tracer_entries=20 * PAIRS, verbose=0, max_stack_depth=0)

    def loop(pairs: int) -> None:
        for _ in range(pairs):
            with tracer.log_event("range"):
                pass

    tracer.start()
    yield loop
    tracer.stop()
    tracer.clear()


CASES: dict[str, tuple[Callable[[], AbstractContextManager[Loop]], int]] = {
    "held_scope": (held_scope, PAIRS),
    "new_scope": (new_scope, PAIRS),
    "new_scope_of_module": (new_scope_of_module, PAIRS),
    "lock": (lock, PAIRS),
    "nvtx_push_range": (nvtx_push_range, PAIRS // 4),
    "nvtx_annotate": (nvtx_annotate, PAIRS // 4),
    "record_function": (record_function, PAIRS // 20),
    "record_function_on": (record_function_on, PAIRS // 20),
    "viztracer_event": (viztracer_event, PAIRS // 4),
}


def seconds_of(loop: Loop, pairs: int) -> float:
    begin = time.perf_counter()
    loop(pairs)
    return time.perf_counter() - begin


def main() -> int:
    prepare, pairs = CASES[sys.argv[1]]
    with prepare() as loop:
        loop(pairs // 10)
        batch = pairs // BATCHES
        busy = statistics.median(seconds_of(loop, batch) for _ in range(BATCHES))
        idle = statistics.median(seconds_of(empty_loop, batch) for _ in range(BATCHES))
    print(1e9 * (busy - idle) / batch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
