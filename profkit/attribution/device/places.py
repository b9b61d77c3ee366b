"""Which part of the network a range belongs to: a capture in, layer and phase of every range out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.attribution.titles import titles
from profkit.capture.nesting import time_order
from profkit.capture.schema import BACKWARD, FORWARD, NONE, OPTIMISER, Capture, Column, Level

DATA = "data"
_BACKWARD_NODE = re.compile(r"Backward\d*$")
_PHASES = (
    (re.compile(r"^Optimizer\.|optimi[sz]er", re.IGNORECASE), OPTIMISER),
    (re.compile(r"backward", re.IGNORECASE), BACKWARD),
    (re.compile(r"forward", re.IGNORECASE), FORWARD),
    (re.compile(r"data_?loader", re.IGNORECASE), DATA),
)


@dataclass(frozen=True)
class RangePlaces:
    """One entry per range: texts as numbers of `texts`, NONE where it is not known."""

    texts: tuple[str, ...]
    layer: Column
    phase: Column
    parent: Column  # the enclosing range; of a backward operator without one, its forward operator


def places_of(capture: Capture) -> RangePlaces:
    """Layer and phase: what the source says, else what the enclosing ranges say, else the forward operator's.

    A backward operator has the sequence number of the forward operator whose gradient it computes, and so its layer.
    """
    ranges = capture.ranges
    texts = {text: number for number, text in enumerate(capture.strings)}
    of_row, names = titles(capture, np.ones(len(ranges), np.bool_))
    title_of = [texts.setdefault(name, len(texts)) for name in names]
    order = time_order(ranges.start_ns, ranges.end_ns)
    forward_of = _forward_operators(capture, order, of_row, names)
    layers, phases = [NONE] * len(ranges), [NONE] * len(ranges)
    columns = (column[order].tolist() for column in (ranges.level, of_row, ranges.layer, ranges.phase, ranges.parent))
    # In order of time over all threads: a range follows the ranges that determine its layer and phase.
    for row, level, title, layer, phase, parent in zip(order.tolist(), *columns):
        if layer == NONE and level == Level.LAYER:
            layer = title_of[title]  # noqa: PLW2901 - what the source leaves open is found here
        forward = forward_of.get(row, NONE)
        if layer == NONE and forward != NONE:
            layer = layers[forward]  # noqa: PLW2901
        if layer == NONE and parent != NONE:
            layer = layers[parent]  # noqa: PLW2901
        if phase == NONE:
            named = _phase_by_name(level, names[title])
            if not named and row in forward_of and forward == NONE:
                named = FORWARD
            phase = texts.setdefault(named, len(texts)) if named else NONE  # noqa: PLW2901
        if phase == NONE and parent != NONE:
            phase = phases[parent]  # noqa: PLW2901
        layers[row], phases[row] = layer, phase
    parents = ranges.parent.copy()
    for row, forward in forward_of.items():
        if parents[row] == NONE:
            parents[row] = forward
    return RangePlaces(tuple(texts), np.array(layers, np.int32), np.array(phases, np.int32), parents)


def _phase_by_name(level: int, name: str) -> str:
    if level == Level.RUNTIME or _BACKWARD_NODE.search(name):
        return BACKWARD
    if level != Level.LAYER:
        return ""
    return next((phase for pattern, phase in _PHASES if pattern.search(name)), "")


def _forward_operators(capture: Capture, order: Column, of_row: Column, names: Sequence[str]) -> dict[int, int]:
    """Of each backward range its forward one, and NONE for each such forward range.

    Operators without a gradient have the number of the next one that has: the last of a number is the one meant. Where
    the source does not record the forward thread, it is that of any thread of the process.
    """
    ranges = capture.ranges
    numbered = order[ranges.sequence[order] != NONE]
    is_backward = [
        _phase_by_name(Level.OPERATOR, name) == BACKWARD or name.startswith("autograd::engine::") for name in names
    ]
    process_of = capture.threads.process.tolist()
    by_thread: dict[tuple[int, int], int] = {}
    by_process: dict[tuple[int, int], int] = {}
    found: dict[int, int] = {}
    columns = (ranges[name][numbered].tolist() for name in ("sequence", "thread", "forward_thread"))
    for row, title, sequence, thread, forward_thread in zip(numbered.tolist(), of_row[numbered].tolist(), *columns):
        process = process_of[thread]
        if not is_backward[title]:
            by_thread[thread, sequence] = by_process[process, sequence] = row
            continue
        forward = by_thread.get((forward_thread, sequence))
        if forward_thread == NONE:
            forward = by_process.get((process, sequence))
        if forward is not None:
            found[row] = forward
    return found | dict.fromkeys(found.values(), NONE)
