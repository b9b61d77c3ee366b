"""Where the ranges of a DeviceTrace stand in the network: a trace in, layer and phase of every range out."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profkit.capture.device_trace import NONE, Column, DeviceTrace, RangeLevel

FORWARD, BACKWARD, OPTIMISER, DATA = "forward", "backward", "optimiser", "data"
_BACKWARD_NODE = re.compile(r"Backward\d*$")
_PHASES = (
    (re.compile(r"^Optimizer\.|optimi[sz]er", re.IGNORECASE), OPTIMISER),
    (re.compile(r"backward", re.IGNORECASE), BACKWARD),
    (re.compile(r"forward", re.IGNORECASE), FORWARD),
    (re.compile(r"data_?loader", re.IGNORECASE), DATA),
)


@dataclass(frozen=True)
class Places:
    """One entry per range: texts as numbers of `texts`, NONE where it is not known."""

    texts: tuple[str, ...]
    layer: Column
    phase: Column
    parent: Column  # the enclosing range; of a backward operator that lies in none its forward operator


def places_of(trace: DeviceTrace) -> Places:
    """Layer and phase: what the source says, else what the enclosing ranges say, else the forward operator's.

    A backward operator has the sequence number of the forward operator whose gradient it computes, and so its layer.
    """
    ranges = trace.ranges
    texts = {text: number for number, text in enumerate(trace.strings)}
    forward_of = _forward_operators(trace)
    layers: list[int] = []
    phases: list[int] = []
    columns = (ranges[name].tolist() for name in ("level", "name", "layer", "phase", "parent"))
    for row, (level, name, layer, phase, parent) in enumerate(zip(*columns)):
        text = trace.strings[name]
        if layer == NONE and level == RangeLevel.LAYER:
            layer = name  # noqa: PLW2901 - what the source leaves open is found here
        forward = forward_of.get(row, NONE)
        if layer == NONE and forward != NONE and forward < row:
            layer = layers[forward]  # noqa: PLW2901
        if layer == NONE and parent != NONE:
            layer = layers[parent]  # noqa: PLW2901
        if phase == NONE:
            told = _phase_by_name(level, text)
            if not told and row in forward_of and forward == NONE:
                told = FORWARD
            phase = texts.setdefault(told, len(texts)) if told else NONE  # noqa: PLW2901
        if phase == NONE and parent != NONE:
            phase = phases[parent]  # noqa: PLW2901
        layers.append(layer)
        phases.append(phase)
    parents = ranges["parent"].copy()
    for row, forward in forward_of.items():
        if parents[row] == NONE:
            parents[row] = forward
    return Places(tuple(texts), np.array(layers, np.int32), np.array(phases, np.int32), parents)


def _phase_by_name(level: int, name: str) -> str:
    if level == RangeLevel.RUNTIME or _BACKWARD_NODE.search(name):
        return BACKWARD
    if level != RangeLevel.LAYER:
        return ""
    return next((phase for pattern, phase in _PHASES if pattern.search(name)), "")


def _forward_operators(trace: DeviceTrace) -> dict[int, int]:
    """Of each backward range its forward one, and NONE for each such forward range.

    Operators without a gradient have the number of the next one that has: the last of a number is the one meant. Where
    the source does not tell the forward thread, it is that of any thread of the process.
    """
    ranges = trace.ranges
    numbered = np.flatnonzero(ranges["sequence"] != NONE)
    is_backward = {
        number: _phase_by_name(RangeLevel.OPERATOR, trace.text(number)) == BACKWARD
        or trace.text(number).startswith("autograd::engine::")
        for number in np.unique(ranges["name"][numbered]).tolist()
    }
    process_of = [int(thread["process"]) for thread in trace.threads]
    by_thread: dict[tuple[int, int], int] = {}
    by_process: dict[tuple[int, int], int] = {}
    found: dict[int, int] = {}
    columns = (ranges[name][numbered].tolist() for name in ("name", "sequence", "thread", "forward_thread"))
    for row, name, sequence, thread, forward_thread in zip(numbered.tolist(), *columns):
        process = process_of[thread]
        if not is_backward[name]:
            by_thread[thread, sequence] = by_process[process, sequence] = row
            continue
        known = (
            by_process.get((process, sequence)) if forward_thread == NONE else by_thread.get((forward_thread, sequence))
        )
        if known is not None:
            found[row] = known
    return found | dict.fromkeys(found.values(), NONE)
