"""Flame graphs of networks: a NetworkCapture goes in, lines `framework;phase;layer;operator;inside number` come out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from profkit.attribution.networks.memory import operator_bytes
from profkit.attribution.networks.operators import Operators, operators_of
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.schema import NONE, Column, Level
from profkit.errors import CaptureError
from profkit.rendering.traces.folded import write_stacks

NO_PHASE, NO_LAYER = "(no phase)", "(no layer)"


def write_network_time(capture: NetworkCapture, path: str | Path) -> None:
    """Nanoseconds of the wall clock, over all recorded steps; with what no operator explains they are all of them."""
    operators = operators_of(capture)
    stacks = _stacks(operators, capture.framework, operators.wall_ns)
    for name, per_step in operators.remainders.items():
        stacks[capture.framework, f"({name})"] = int(per_step.sum())
    write_stacks(path, stacks)


def write_network_bytes(capture: NetworkCapture, path: str | Path) -> None:
    """Bytes that operators themselves asked for; CaptureError when no pass recorded them."""
    memory = operator_bytes(capture, operators_of(capture))
    if memory is None or not (memory.requested != NONE).any():
        raise CaptureError(f"{capture.framework} recorded no bytes of operators: there is nothing to fold")
    write_stacks(path, _stacks(memory.operators, capture.framework, memory.requested))


def _stacks(operators: Operators, framework: str, amount: Column) -> dict[tuple[str, ...], int]:
    sums: dict[tuple[str, ...], int] = {}
    for row in operators.rows.tolist():
        if amount[row] > 0:
            place = (operators.text("phase", row) or NO_PHASE, operators.text("layer", row) or NO_LAYER)
            stack = (framework, *place, *reversed(list(_frames(operators, row))))
            sums[stack] = sums.get(stack, 0) + int(amount[row])
    return sums


def _frames(operators: Operators, row: int) -> Iterator[str]:
    """The operator and those around it, the innermost first; a primitive has its own name."""
    spans, strings = operators.recording.spans, operators.recording.strings
    while row != NONE:
        is_primitive = spans["level"][row] == Level.PRIMITIVE
        yield strings[spans["name"][row]] if is_primitive else operators.text("type", row)
        row = int(operators.above[row])
