"""Many workers at once: ask several, take the answers as they come, give up on those that are late."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Sequence

from profkit.measurement.process import WorkerFailure, WorkerProcess
from profkit.measurement.protocol import Message

Answer = Message | WorkerFailure
Task = Callable[[], WorkerProcess]
"""Starts or asks a worker and returns it."""


def wait_for(workers: Sequence[WorkerProcess]) -> list[tuple[WorkerProcess, Answer]]:
    """Block until at least one of the asked workers has answered, died or run out of time."""
    patience = max(0.0, min(worker.deadline for worker in workers) - time.monotonic())
    readable, _, _ = select.select([worker.replies for worker in workers], [], [], patience)
    finished: list[tuple[WorkerProcess, Answer]] = []
    for worker in workers:
        if worker.replies in readable:
            finished.append((worker, _answer(worker)))
        elif time.monotonic() >= worker.deadline:
            finished.append((worker, worker.out_of_time()))
    return finished


def ask_one(worker: WorkerProcess, limit_s: float, request: Message) -> Message:
    """Ask and wait; raises WorkerFailure."""
    worker.ask(limit_s, request)
    while True:
        for _, answer in wait_for([worker]):
            if isinstance(answer, WorkerFailure):
                raise answer
            return answer


def ask_all(tasks: Iterable[Task], at_once: int, finished: Callable[[WorkerProcess, Answer], Task | None]) -> None:
    """Run tasks, at most `at_once` at a time; `finished` may return what to ask the same worker next."""
    waiting = list(tasks)
    running: list[WorkerProcess] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(waiting.pop(0)())
        for worker, answer in wait_for(running):
            running.remove(worker)
            following = finished(worker, answer)
            if following is not None:
                running.append(following())


def _answer(worker: WorkerProcess) -> Answer:
    try:
        return worker.answer()
    except WorkerFailure as failure:
        return failure
