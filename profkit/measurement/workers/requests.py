"""Requests to many workers at once: answers are taken as they come, late ones time out."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence

from profkit.measurement.workers.process import WorkerFailure, WorkerProcess
from profkit.measurement.workers.protocol import Message

Answer = Message | WorkerFailure
WorkerTask = Callable[[], WorkerProcess | None]
"""Starts or asks a worker and returns it, or None when that failed."""


def wait_for(workers: Sequence[WorkerProcess]) -> list[tuple[WorkerProcess, Answer]]:
    """Block until one of these workers may have answered, died or run out of time; those that did."""
    patience = max(0.0, min(worker.deadline for worker in workers) - time.monotonic())
    select.select([descriptor for worker in workers for descriptor in worker.descriptors], [], [], patience)
    return [(worker, answer) for worker in workers if (answer := _answer(worker)) is not None]


def ask_one(worker: WorkerProcess, limit_s: float, request: Message) -> Message:
    """Ask and wait; raises WorkerFailure."""
    worker.ask(limit_s, request)
    return wait_for_one(worker)


def wait_for_one(worker: WorkerProcess) -> Message:
    """The answer of a worker with a pending request; raises WorkerFailure."""
    while True:
        for _, answer in wait_for([worker]):
            if isinstance(answer, WorkerFailure):
                raise answer
            return answer


def ask_all(
    tasks: Iterable[WorkerTask], at_once: int, finished: Callable[[WorkerProcess, Answer], WorkerTask | None]
) -> None:
    """Run tasks, at most `at_once` at a time; `finished` may return what to ask the same worker next."""
    waiting = list(tasks)
    running: list[WorkerProcess] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            started = waiting.pop(0)()
            running += [started] if started else []
        for worker, answer in wait_for(running) if running else []:
            running.remove(worker)
            following = finished(worker, answer)
            asked = following() if following else None
            running += [asked] if asked else []


def _answer(worker: WorkerProcess) -> Answer | None:
    try:
        reply = worker.answer()
    except WorkerFailure as failure:
        return failure
    return worker.out_of_time() if reply is None and time.monotonic() >= worker.deadline else reply
