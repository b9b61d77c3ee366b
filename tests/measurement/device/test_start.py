"""The order in which rows start and make their first calls: those on a GPU one after the other, after the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import profkit
from profkit.frameworks.adapter import Implementation
from profkit.measurement import cell
from profkit.measurement.cell import CellRun
from profkit.measurement.options import MeasureOptions
from profkit.measurement.workers.pool import WorkerPool
from profkit.measurement.workers.process import WorkerFailure

CPU, FIRST, SECOND = "matmul/numpy/cpu", "matmul/cupy/cuda", "matmul/numba_cuda/cuda/naive"


class MadeUpWorker:
    """Answers what `answers` has for its request; says what it was asked."""

    def __init__(self, key: str, log: list[str], answers: dict[str, Any]) -> None:
        self.implementation = Implementation(key, "")
        self.name, self.log, self.answers = key.split("/")[1], log, answers
        self.request = "start"

    def ask(self, limit_s: float, request: dict[str, Any]) -> None:
        """Remember the request."""
        self.request = request["do"]
        self.log.append(f"{self.name} begins to {self.request}")

    def answer(self) -> Any:
        """What it has for the request."""
        self.log.append(f"{self.name} has done {self.request}")
        return self.answers.get(f"{self.name} {self.request}", {"versions": {}} if self.request == "start" else {})

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def all_at_once(tasks: Iterable[Callable[[], Any]], at_once: int, finished: Callable[..., Any]) -> None:
    """As requests.ask_all where all begin before anybody has an answer."""
    asked = [worker for task in tasks if (worker := task())]
    while asked:
        following = [finished(worker, worker.answer()) for worker in asked]
        asked = [worker for task in following if task and (worker := task())]


def wait(worker: MadeUpWorker) -> Any:
    """As requests.wait_for_one."""
    answer = worker.answer()
    if isinstance(answer, WorkerFailure):
        raise answer
    return answer


def started(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> tuple[list[str], CellRun]:
    """What happened, and the cell, after everybody was started; answers by `name_request`."""
    log: list[str] = []
    pool = WorkerPool(MeasureOptions(), 1)

    def start(implementation: Implementation, position: int) -> Any:
        worker = MadeUpWorker(implementation.key, log, {name.replace("_to_", " "): a for name, a in answers.items()})
        pool.workers[implementation.key] = worker  # type: ignore[assignment]
        log.append(f"{worker.name} begins to start")
        return worker

    monkeypatch.setattr(pool, "start", start)
    monkeypatch.setattr(pool, "replace", lambda implementation: WorkerFailure("unavailable", "no device"))
    monkeypatch.setattr(cell, "ask_all", all_at_once)
    monkeypatch.setattr(cell, "wait_for_one", wait)
    monkeypatch.setattr(cell, "availability_of", lambda *_: ("", ""))
    rows = [Implementation(key, "") for key in (FIRST, CPU, SECOND)]
    run = CellRun(profkit.MatMul(m=2, n=2, k=2), pool, rows, lambda *_: None)
    monkeypatch.setattr(run, "_take_first_call", lambda key, *_: setattr(run.rows[key], "status", "ok"))
    run._start_and_check("folder")
    return log, run


def test_first_calls_on_a_gpu_have_it_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    log, run = started(monkeypatch)

    prepared = [line for line in log if line.endswith("prepare")]
    assert prepared == [
        f"{name} {word} prepare" for name in ("numpy", "cupy", "numba_cuda") for word in ("begins to", "has done")
    ]
    # Frameworks take seconds to import: that is done at once.
    assert log[:3] == [f"{name} begins to start" for name in ("numba_cuda", "numpy", "cupy")]
    assert {row.status for row in run.rows.values()} == {"ok"}


def test_a_device_lost_in_a_first_call_is_not_asked_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    log, run = started(monkeypatch, cupy_to_prepare=WorkerFailure("crashed", "unknown error"))

    assert "numba_cuda begins to prepare" not in log
    assert [run.rows[key].status for key in (FIRST, SECOND, CPU)] == ["lost", "lost", "ok"]
    assert run.rows[SECOND].reason == run.rows[FIRST].reason
    assert "lost while matmul/cupy/cuda ran: unknown error; a new process says: no device" in run.rows[FIRST].reason


def test_a_worker_that_lives_from_the_cell_before_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    log, run = started(monkeypatch)
    del log[:]
    again = CellRun(profkit.MatMul(m=2, n=2, k=3), run.pool, run.implementations, lambda *_: None)
    monkeypatch.setattr(again, "_take_first_call", lambda key, *_: setattr(again.rows[key], "status", "ok"))

    again._start_and_check("folder")

    assert log == [
        f"{name} {word} prepare" for name in ("numpy", "cupy", "numba_cuda") for word in ("begins to", "has done")
    ]
