"""Folded stacks for flame graphs: a Capture goes in, lines `outer;inner number` come out.

Captures with steps have stacks `framework;phase;layer;operator;inside` of the steps' wall clock, others
`thread;range;range` of the threads' own times.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from profkit.attribution.networks.operators import Operators
from profkit.attribution.titles import thread_titles, titles
from profkit.attribution.tree import is_in_tree, is_mark, tree_of
from profkit.capture.output_files import open_output
from profkit.capture.schema import HOST_MEMORY, KINETO, NONE, NSIGHT, Capture, Column, Level, taken
from profkit.errors import CaptureError
from profkit.rendering.operators import operators_by_process
from profkit.rendering.terminal import LINES, visible

NO_PHASE, NO_LAYER = "(no phase)", "(no layer)"
# The format's separators must not occur in a name.
_SEPARATORS = str.maketrans({";": ",", "\n": " ", "\r": " "})
_Stack = tuple[tuple[str, ...], int]


def write_folded_time(capture: Capture, path: str | Path) -> None:
    """Nanoseconds of every stack: all of the steps' wall clock, or, without steps, the ranges' own times."""
    if len(capture.steps):
        _write(path, _step_stacks(capture))
        return
    rows = np.flatnonzero(is_in_tree(capture))
    _write(path, _thread_stacks(capture, capture.ranges.thread[rows], rows, tree_of(capture).own_ns[rows]))


def write_folded_bytes(capture: Capture, path: str | Path) -> None:
    """Bytes allocated directly by the ranges of every stack; those outside any range are under their thread.

    For steps those of the operators, else recorded allocations of the host, or memory of GPUs. CaptureError when
    none of these was recorded.
    """
    taken, events = capture.allocations, capture.memory_events
    allocating = np.flatnonzero((events.bytes > 0) & ~np.isin(events.kind, HOST_MEMORY))
    if len(capture.steps) and (capture.ranges.requested_bytes != NONE).any():
        _write(path, _step_stacks(capture, capture.ranges.requested_bytes))
    elif len(taken):
        _write(path, _thread_stacks(capture, taken.thread, taken.range, taken.bytes.astype(np.int64)))
    elif len(allocating) or not (len(capture.steps) or capture.recorder in (KINETO, NSIGHT)):
        _write(
            path, _thread_stacks(capture, events.thread[allocating], events.range[allocating], events.bytes[allocating])
        )
    else:
        name = os.path.basename(capture.path)
        what = (
            f"{capture.framework} recorded no bytes of operators"
            if capture.framework
            else f"{name} has no record of memory"
        )
        raise CaptureError(f"{what}: there is nothing to fold")


# --- The clock of the steps ---


def _step_stacks(capture: Capture, requested_bytes: Column | None = None) -> Iterator[_Stack]:
    """Bytes of the operators, or their shares of the time and what no operator explains."""
    for process, operators in operators_by_process(capture).items():
        root = capture.processes[process].framework or capture.processes[process].name
        yield from _operator_stacks(operators, root, operators.wall_ns if requested_bytes is None else requested_bytes)
        for name, per_step in operators.remainders.items() if requested_bytes is None else ():
            yield (root, f"({name})"), int(per_step.sum())


def _operator_stacks(operators: Operators, root: str, amount: Column) -> Iterable[_Stack]:
    sums: dict[tuple[str, ...], int] = {}
    for row in operators.rows[amount[operators.rows] > 0].tolist():
        place = (operators.text("phase", row) or NO_PHASE, operators.text("layer", row) or NO_LAYER)
        stack = (root, *place, *reversed(list(_frames(operators, row))))
        sums[stack] = sums.get(stack, 0) + int(amount[row])
    return sums.items()


def _frames(operators: Operators, row: int) -> Iterator[str]:
    """The operator and those around it, the innermost first; a primitive has its own name."""
    ranges = operators.capture.ranges
    while row != NONE:
        is_primitive = ranges.level[row] == Level.PRIMITIVE
        yield operators.capture.text(ranges.name[row]) if is_primitive else operators.text("type", row)
        row = int(operators.above[row])


# --- The clock of the threads ---


def _thread_stacks(capture: Capture, thread: Column, row: Column, amount: Column) -> Iterator[_Stack]:
    """Amounts summed over equal threads and paths; each belongs to a row of ranges, or to none (-1)."""
    title, names = titles(capture, ~is_mark(capture))
    path_of_row, ways = tree_of(capture).paths(title, names)
    # One more than the last path: no range.
    path = np.where(row == NONE, len(ways), taken(path_of_row, row))
    keys, place = np.unique(thread.astype(np.int64) * (len(ways) + 1) + path, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, place, amount)
    threads = (*thread_titles(capture), "(thread not recorded)")  # the last one is that of NONE
    for key, total in zip(keys.tolist(), sums.tolist()):
        owner, number = divmod(key, len(ways) + 1)
        way = (names[title] for title in ways[number]) if number < len(ways) else ()
        yield (threads[owner], *way), total


def _write(path: str | Path, stacks: Iterable[_Stack]) -> None:
    """Stacks from the outermost frame on; those of nothing are left out."""
    with open_output(path, syncs=False) as stream:
        for stack, total in stacks:
            if total > 0:
                line = ";".join(frame.translate(_SEPARATORS) for frame in stack) + f" {total}\n"
                stream.write(visible(line, LINES).encode("utf-8"))
