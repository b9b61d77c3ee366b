"""Torch's operators, layers and memory: our own callbacks in C++, or torch's profiler where they cannot be compiled."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profkit.backends.networks.contract import NetworkConditions
from profkit.capture.recording import Recording
from profkit.capture.sources import MEMORY, TIME, Pass, Watched
from profkit.capture.sources.torch_build import load_recorder
from profkit.capture.sources.torch_events import TorchEvents
from profkit.capture.sources.torch_kineto import record_kineto
from profkit.capture.sources.torch_native import record_native
from profkit.capture.sources.torch_spans import recording_of
from profkit.errors import UnavailableError, UsageError

OPERATORS = "operators"
CHOICE = "PROFKIT_TORCH_SOURCE"
NATIVE, KINETO = "native", "kineto"
Steps = list[tuple[int, int]]


class TorchSource:
    """Follows Source."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Time and memory in one: a report of memory costs as much as reading the clock."""
        return [Pass(OPERATORS, (TIME, MEMORY))]

    def record(self, watched: Watched, name: str, steps: int) -> Recording:
        """Run the steps with every operator, allocation and layer recorded."""
        torch = importlib.import_module("torch")
        built: Any = watched.built
        model = built.model
        notes: list[str] = []
        clock: Steps = []
        # A compiled model must not be touched: shadowed modules would break its graph, and another program would run.
        layers = dict(model.named_children()) if built.graphs is None else {}
        events = record_events(torch, layers, _runner(watched, steps, clock), notes)
        facts = {"parameter_bytes": sum(each.nbytes for each in model.parameters()), "notes": notes}
        return recording_of(events, clock, owners_of(built), (TIME, MEMORY), facts, built.graphs)


def _runner(watched: Watched, steps: int, clock: Steps) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            begin = time.perf_counter_ns()
            watched.step()
            clock.append((begin, time.perf_counter_ns()))

    return run


def record_events(torch: Any, layers: Mapping[str, Any], run: Callable[[], None], notes: list[str]) -> TorchEvents:
    """What torch reports while `run` runs; `layers` are modules by their names. Says in `notes` if Kineto stood in."""
    choice = os.environ.get(CHOICE, "")
    if choice not in {"", NATIVE, KINETO}:
        raise UsageError(f"{CHOICE} is {choice!r}: it can be {NATIVE} or {KINETO}")
    if choice == KINETO:
        notes.append(f"recorded by torch's own profiler (Kineto), as {CHOICE} asks")
        return record_kineto(torch, layers, run)
    try:
        recorder = load_recorder()
    except UnavailableError as error:
        if choice == NATIVE:
            raise
        notes.append(f"recorded by torch's own profiler (Kineto), which costs more than ours: {error}")
        return record_kineto(torch, layers, run)
    return record_native(recorder, torch, layers, run)


def owners_of(built: Any) -> dict[int, str]:
    """The layer of every parameter and of what the optimiser keeps for it, by the address of its memory."""
    owners: dict[int, str] = {}
    for layer, module in built.model.named_children():
        for parameter in module.parameters():
            kept = built.optimizer.state.get(parameter, {}).values()
            for tensor in (parameter, *(each for each in kept if hasattr(each, "untyped_storage"))):
                owners[tensor.untyped_storage().data_ptr()] = layer
    return owners


SOURCE = TorchSource()
