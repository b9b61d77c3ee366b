"""Flops and least bytes of a network's operators: what the formulas of a step say, given to the operators that did it.

A formula is for a layer, a phase and a kind. Its work belongs to the operators of this kind there; to those that have
it fused; or, when the framework hides it, to the largest of the layer. Several share it by their wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.kinds import AUXILIARY, KINDS, OTHER
from profkit.attribution.networks.operators import NO_LAYER, LayerPhase, Operators
from profkit.capture.run import Run
from profkit.capture.schema import NONE, Column
from profkit.ops.networks import Training, network_from_dict
from profkit.ops.networks.work import StepWork, fused, network_work


@dataclass(frozen=True)
class OperatorWork:
    """Per span, over all recorded steps; NONE where no formula says anything."""

    flops: Column  # int64
    bytes: Column  # int64
    missing: tuple[LayerPhase, ...]
    """Layers and phases that have work to do, and no operator that was seen."""


def operator_work(run: Run, operators: Operators) -> OperatorWork:
    """The work of every operator; over all spans it sums to that of the network times the recorded steps."""
    flops, moved = (np.full(len(operators.capture.ranges), NONE, np.int64) for _ in range(2))
    candidates = _candidates(operators)
    missing = []
    for place, parts in _work_by_place(run).items():
        by_kind = candidates.get(place) or candidates.get((NO_LAYER, place[1]))
        if not by_kind:
            missing.append(place)
            continue
        for kind, work in _given(parts, by_kind, operators).items():
            rows = by_kind[kind]
            weights = operators.wall_ns[rows]
            _add(flops, rows, _split(work.flops * operators.steps, weights))
            _add(moved, rows, _split(work.bytes * operators.steps, weights))
    return OperatorWork(flops, moved, tuple(missing))


def _work_by_place(run: Run) -> dict[LayerPhase, dict[str, StepWork]]:
    training = Training(**run.training) if run.is_training else None
    places: dict[LayerPhase, dict[str, StepWork]] = {}
    for (layer, phase, kind), part in network_work(network_from_dict(run.network), training).items():
        places.setdefault((layer, phase), {})[kind] = part
    return places


def _candidates(operators: Operators) -> dict[LayerPhase, dict[str, Column]]:
    """By layer and phase: the rows of each kind that have none of the same kind inside, who do the work themselves."""
    rows = operators.rows
    is_wrapper = np.zeros(len(operators.capture.ranges), np.bool_)
    above = operators.above[rows]
    for _ in range(len(rows)):
        reached = above != NONE
        if not reached.any():
            break
        same = reached & (operators.kind[above] == operators.kind[rows])
        is_wrapper[above[same]] = True
        above = np.where(reached, operators.above[above], NONE)
    found: dict[LayerPhase, dict[str, list[int]]] = {}
    for row in rows[~is_wrapper[rows]].tolist():
        place = operators.text("layer", row), operators.text("phase", row)
        found.setdefault(place, {}).setdefault(KINDS[operators.kind[row]], []).append(row)
    return {
        place: {kind: np.array(numbers, np.int64) for kind, numbers in kinds.items()} for place, kinds in found.items()
    }


def _given(parts: dict[str, StepWork], by_kind: dict[str, Column], operators: Operators) -> dict[str, StepWork]:
    """Which kind of operator does which parts, and what that is together."""
    takers: dict[str, list[str]] = {}
    for kind in parts:
        takers.setdefault(_taker(kind, by_kind, operators), []).append(kind)
    # An operator's own part first: bias and ReLU change what it has made, and neither read nor write it again.
    return {
        taker: fused(parts[kind] for kind in sorted(kinds, key=lambda kind: kind != taker))
        for taker, kinds in takers.items()
    }


def _taker(kind: str, by_kind: dict[str, Column], operators: Operators) -> str:
    if kind in by_kind:
        return kind
    fusing = [each for each, rows in by_kind.items() if any(kind in operators.kinds.get(int(row), ()) for row in rows)]
    # Moving numbers about is not what the formula means, unless nothing else is there.
    working = [each for each in by_kind if each not in AUXILIARY | {OTHER}]
    return max(fusing or working or by_kind, key=lambda each: int(operators.wall_ns[by_kind[each]].sum()))


def _split(total: int, weights: Column) -> Column:
    """Whole numbers in proportion to the weights that sum to the total exactly."""
    if not weights.any():
        weights = np.ones_like(weights)
    borders = np.cumsum(weights, dtype=np.float64) / float(weights.sum())
    # Up to 2^53 exact; above, a flop more or less in a row, and none in the sum.
    ends = np.rint(borders * total).astype(np.int64)
    ends[-1] = total
    return np.diff(ends, prepend=np.int64(0))


def _add(column: Column, rows: Column, values: Column) -> None:
    column[rows] = np.maximum(column[rows], 0) + values
