"""Operators of steps, for the views: a Capture in, what attribution found of each process's steps out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profkit.attribution.networks.operators import Operators, operators_in
from profkit.capture.schema import NONE, Capture, Column, Level, Steps


def operators_by_process(capture: Capture) -> dict[int, Operators]:
    """Of every process that has steps; all have one entry per range of the capture."""
    if len(capture.processes) == 1:
        return {0: operators_in(capture)} if len(capture.steps) else {}
    owners = np.unique(np.maximum(capture.steps.process, 0)).tolist()
    return {process: operators_in(_of_process(capture, process)) for process in owners}


def operator_columns(capture: Capture) -> tuple[Column, Column]:
    """The kind of each operator (a place in KINDS) and its share of its step's wall clock; NONE for other ranges."""
    kind, wall = np.full(len(capture.ranges), NONE, np.int8), np.full(len(capture.ranges), NONE, np.int64)
    for operators in operators_by_process(capture).values():
        is_operator = np.isin(operators.capture.ranges.level, (Level.OPERATOR, Level.PRIMITIVE))
        kind[is_operator] = operators.kind[is_operator]
        wall[operators.rows] = operators.wall_ns[operators.rows]
    return kind, wall


def _of_process(capture: Capture, process: int) -> Capture:
    """The capture with the steps of one process alone; ranges of the others stay, without a level and a step."""
    ranges, steps = capture.ranges, capture.steps
    is_own = capture.threads.process[ranges.thread] == process
    rows = np.flatnonzero(np.maximum(steps.process, 0) == process)
    number = np.full(len(steps) + 1, NONE, np.int32)
    number[rows] = np.arange(len(rows))
    owner = capture.processes[process]
    return replace(
        capture,
        processes=(owner,),
        ranges=replace(ranges, level=np.where(is_own, ranges.level, np.int8(NONE)), step=number[ranges.step]),
        steps=Steps(steps.start_ns[rows], steps.end_ns[rows]),
        facts=capture.facts.get(owner.name, capture.facts),
    )
