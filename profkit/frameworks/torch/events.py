"""Torch's operators, layers and memory: our own callbacks in C++, or torch's profiler where they cannot be compiled."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.capture.schema import Capture
from profkit.errors import UnavailableError, UsageError
from profkit.frameworks.events import MEMORY, PRIMITIVES, TIME, Pass, SourceSubject
from profkit.frameworks.events.helper_threads import cpu_clock_of, helper_threads
from profkit.frameworks.events.layer_shares import layer_facts
from profkit.frameworks.lazy import torch
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.torch.build import load_recorder
from profkit.frameworks.torch.kineto import record_kineto
from profkit.frameworks.torch.native import record_native
from profkit.frameworks.torch.primitives import add_tasks, listed_primitives, watch_tasks
from profkit.frameworks.torch.raw_events import TorchEvents
from profkit.frameworks.torch.spans import torch_capture

OPERATORS = "operators"
POOL_NOTE = (
    "primitives are oneDNN's, and pool spans are what its helper threads did in them; pool CPU time is read from every "
    "helper thread's own clock, waiting that spins included"
)
CHOICE = "PROFKIT_TORCH_SOURCE"
NATIVE, KINETO = "native", "kineto"


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """Time and memory in one: a report of memory costs as much as reading the clock. Primitives need a door that
    opens only when torch is imported, and reading the clocks of helper threads costs more than the operators may.
    """
    collector = _collector()
    operators = Pass(OPERATORS, (TIME, MEMORY))
    return [operators, Pass(PRIMITIVES, (PRIMITIVES,), collector, POOL_NOTE)] if collector else [operators]


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    built: Any = watched.built
    modules = Modules(
        # A compiled model must not be touched: shadowed modules would break its graph, another program would run.
        layers=dict(built.model.named_children()) if built.graphs is None else {},
        owners=lambda: owners_of(built),
        held_bytes=sum(each.nbytes for _, each in held_tensors(built)),
        graphs=built.graphs,
    )
    return record_modules(watched, name, steps, modules)


@dataclass(frozen=True)
class Modules:
    """What must be known of a model in order to understand its events; Keras' models over torch are such, too."""

    layers: Mapping[str, Any]
    """Modules by the names of their layers, whose `forward` is put into spans."""
    owners: Callable[[], Mapping[int, str]]
    """The layer of every address of parameters and of their optimiser state; read after the steps."""
    held_bytes: int
    """Parameters, and what the optimiser keeps for them."""
    graphs: Any = None
    """What a compiled model was made of."""
    framework: str = "torch"


def record_modules(watched: SourceSubject, name: str, steps: int, modules: Modules) -> Capture:
    notes: list[str] = []
    clock: list[tuple[int, int]] = []
    layers, graphs = modules.layers, modules.graphs

    def run() -> None:
        clock.extend(watched.run(steps))

    facts = {"held_bytes": modules.held_bytes, "notes": notes}
    if name == OPERATORS:
        events = record_events(torch, layers, run, notes)
        capture = torch_capture(events, clock, modules.owners(), (TIME, MEMORY), facts, graphs, modules.framework)
        return replace(capture, facts={**capture.facts, **layer_facts(capture)})
    listed = listed_primitives(torch, watched.step)
    helpers = [cpu_clock_of(thread) for thread in helper_threads()]
    events, tasks = watch_tasks(lambda: record_events(torch, layers, run, notes, helpers))
    capture = torch_capture(events, clock, modules.owners(), (PRIMITIVES,), facts, graphs, modules.framework)
    return add_tasks(capture, tasks, listed)


def _collector() -> dict[str, str]:
    """The variable by which torch finds the tracer's ITT door; nothing where there is no such library."""
    try:
        environment = importlib.import_module("profkit.capture.environment")
        return {environment.ITT_COLLECTOR: environment.library_path()}
    except (ImportError, UnavailableError):
        return {}


def record_events(
    torch: Any,
    layers: Mapping[str, Any],
    run: Callable[[], None],
    notes: list[str],
    helpers: Sequence[int] | None = None,
) -> TorchEvents:
    """What torch reports while `run` runs; `layers` are modules by their names. Says in `notes` if Kineto stood in.

    `helpers` are CPU clocks of threads that work for this one, to be read instead of memory; only our recorder can.
    """
    choice = os.environ.get(CHOICE, "")
    if choice not in {"", NATIVE, KINETO}:
        raise UsageError(f"{CHOICE} is {choice!r}: it can be {NATIVE} or {KINETO}")
    if choice == KINETO:
        notes.append(f"recorded by torch's own profiler (Kineto), as {CHOICE} requests")
        return record_kineto(torch, layers, run)
    try:
        recorder = load_recorder()
    except UnavailableError as error:
        if choice == NATIVE:
            raise
        notes.append(f"recorded by torch's own profiler (Kineto), which costs more than ours: {error}")
        return record_kineto(torch, layers, run)
    return record_native(recorder, torch, layers, run, memory=helpers is None, helpers=helpers or ())


def owners_of(built: Any) -> dict[int, str]:
    """The layer of every parameter and of what the optimiser keeps for it, by the address of its memory."""
    return {tensor.untyped_storage().data_ptr(): layer for layer, tensor in held_tensors(built)}


def held_tensors(built: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and what the optimiser keeps for them, with their layers."""
    for layer, module in built.model.named_children():
        for parameter in module.parameters():
            kept = built.optimizer.state.get(parameter, {}).values()
            for tensor in (parameter, *(each for each in kept if hasattr(each, "untyped_storage"))):
                yield layer, tensor
