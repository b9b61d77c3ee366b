"""Torch's events understood: levels, phases, layers and memory. TorchEvents and the steps enter, a Capture leaves.

A backward operator has the layer of the forward operator that made its node: both carry the same sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.capture.event_log import EventThread, PassHeader, capture_of
from profkit.capture.schema import BACKWARD, EXACT, FORWARD, INFERRED, NONE, OPTIMISER, Capture, Column, Level
from profkit.frameworks.torch.kernels import COMPILER, SpanAnnotations, map_kernels
from profkit.frameworks.torch.memory import memory_columns, peak_of, without_older_blocks
from profkit.frameworks.torch.raw_events import (
    BACKWARD_CALL,
    BACKWARD_FUNCTION,
    LAYER,
    RUNTIME,
    USER_SCOPE,
    TorchEvents,
)

ENGINE = "autograd::engine::evaluate_function: "
OPTIMIZER = "Optimizer."
ACCUMULATE = "torch::autograd::AccumulateGrad"


def understand(events: TorchEvents, owners: Mapping[int, str]) -> SpanAnnotations:
    """What every span is; `owners` has the layer of each address of parameters and of what the optimiser keeps."""
    rows = list(zip(*(events.spans[name].tolist() for name in ("name", "scope", "parent"))))
    found = SpanAnnotations()
    for number, scope, parent in rows:
        name = events.names[number]
        found.level.append(_level(name, scope))
        found.type.append(name.removeprefix(ENGINE))
        found.phase.append(_phase(name, scope) or (found.phase[parent] if parent >= 0 else FORWARD))
        found.layer.append(name if scope == LAYER else found.layer[parent] if parent >= 0 else None)
        found.fused.append(None)
        found.quality.append(EXACT)
    _map_backward(events, found)
    _map_optimiser(events, found, owners)
    return found


def _level(name: str, scope: int) -> Level:
    if scope == LAYER:
        return Level.LAYER
    # A node of the graph calls operators for all it does; torch's own user scopes are those of its optimiser.
    is_runtime = scope in {RUNTIME, USER_SCOPE, BACKWARD_FUNCTION} or name.startswith((ENGINE, *COMPILER))
    return Level.RUNTIME if is_runtime else Level.OPERATOR


def _phase(name: str, scope: int) -> str | None:
    if scope == BACKWARD_FUNCTION or name == BACKWARD_CALL or name.startswith(ENGINE):
        return BACKWARD
    return OPTIMISER if scope == USER_SCOPE and name.startswith(OPTIMIZER) else None


def _map_backward(events: TorchEvents, found: SpanAnnotations) -> None:
    """Layers of backward nodes, and of their nested spans."""
    made_by = _layers_by_sequence(events, found)
    names = ("scope", "sequence", "forward_thread", "thread", "parent")
    last: dict[int, str | None] = {}
    for row, (scope, sequence, forward_thread, thread, parent) in enumerate(
        zip(*(events.spans[name].tolist() for name in names))
    ):
        if found.phase[row] != BACKWARD:
            continue
        if scope != BACKWARD_FUNCTION:
            found.layer[row] = found.layer[parent] if parent >= 0 else None
            found.quality[row] = found.quality[parent] if parent >= 0 and found.layer[row] else EXACT
            continue
        if found.type[row] == ACCUMULATE:
            # It has no forward operator. The engine runs it as soon as the gradient is there, so right after the node
            # that made the gradient.
            found.layer[row] = last.get(thread)
            found.quality[row] = INFERRED
        else:
            found.layer[row] = last[thread] = made_by.get((forward_thread, sequence))
        if parent >= 0 and events.names[events.spans["name"][parent]].startswith(ENGINE):
            found.layer[parent], found.quality[parent] = found.layer[row], found.quality[row]


def _layers_by_sequence(events: TorchEvents, found: SpanAnnotations) -> dict[tuple[int, int], str | None]:
    """The layer that was open when a node was made, by thread and number; thread 0 means any.

    Operators read the number that the next node will have: of several with the same number the last one made it.
    """
    thread_ids = [thread.torch_id for thread in events.threads]
    made_by: dict[tuple[int, int], str | None] = {}
    names = ("sequence", "thread")
    for row, (sequence, thread) in enumerate(zip(*(events.spans[name].tolist() for name in names))):
        if sequence >= 0 and found.phase[row] == FORWARD:
            made_by[thread_ids[thread], sequence] = made_by[0, sequence] = found.layer[row]
    return made_by


def _map_optimiser(events: TorchEvents, found: SpanAnnotations, owners: Mapping[int, str]) -> None:
    """An operator of the optimiser works for the layer whose parameter (or its momentum) it was given."""
    for row, parent in enumerate(events.spans["parent"].tolist()):
        if found.phase[row] == OPTIMISER:
            given = (owners[address] for _, address in events.operands_of(row) if address in owners)
            found.layer[row] = next(given, found.layer[parent] if parent >= 0 else None)


def torch_capture(
    events: TorchEvents,
    steps: Sequence[tuple[int, int]],
    owners: Mapping[int, str],
    measures: tuple[str, ...],
    facts: Mapping[str, Any],
    graphs: Any = None,
    framework: str = "torch",
) -> Capture:
    """The capture of a pass; `graphs` are those of a compiled model."""
    events = without_older_blocks(events)
    found = understand(events, owners)
    if graphs is not None:
        facts = {**facts, "fused_across": map_kernels(events, found, graphs)}
    strings: dict[str, int] = {}
    copied = ("start_ns", "end_ns", "parent", "thread", "sequence", "pool_cpu_ns")
    columns: dict[str, Column] = {name: events.spans[name] for name in copied}
    columns["level"] = np.array(found.level, np.int8)
    if "memory" in measures:
        columns.update(memory_columns(events, [level == Level.OPERATOR for level in found.level]))
    texts: dict[str, Sequence[str | None]] = {
        "name": [events.names[number] for number in events.spans["name"].tolist()],
        "shapes": [_shapes(events, row) for row in range(len(found.level))],
        **{name: getattr(found, name) for name in ("type", "layer", "phase", "fused", "quality")},
    }
    for name, values in texts.items():
        numbers = [NONE if text is None else strings.setdefault(text, len(strings)) for text in values]
        columns[name] = np.array(numbers, np.int32)
    all_facts = _facts(events, measures, facts)
    about = PassHeader(framework, events.source, measures, events.clock_error_ns, events.lost, all_facts)
    threads = [_thread(events, number) for number in range(len(events.threads))]
    taken = events.allocations
    memory = {"range": taken["span"], **taken} if "memory" in measures else {}
    return capture_of(about, columns, steps, threads, tuple(strings), memory)


def _facts(events: TorchEvents, measures: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    facts = dict(given)
    notes = list(facts.get("notes", ()))
    if "memory" in measures:
        facts["peak_bytes"] = peak_of(events)
        if sum(not thread.is_recorder for thread in events.threads):
            notes.append("torch reports memory of the recording thread only: the bytes of other threads are not known")
    if events.lost:
        notes.append(f"{events.lost} records did not fit into the recorder's buffers and are missing")
    return {**facts, "notes": notes}


def _thread(events: TorchEvents, number: int) -> EventThread:
    thread = events.threads[number]
    if thread.is_recorder:
        return EventThread(thread.os_id, "main", "main")
    scopes = events.spans["scope"][events.spans["thread"] == number]
    role = "autograd" if (scopes == BACKWARD_FUNCTION).any() else "other"
    return EventThread(thread.os_id, role, role)


def _shapes(events: TorchEvents, row: int) -> str | None:
    if events.spans["operands"][row] < 0:
        return None
    return " ".join(f"[{','.join(map(str, sizes))}]" for sizes, _ in events.operands_of(row))
