"""For whom TensorFlow's pool threads worked: the profile's hand-outs of tasks are followed back to an operator.

`ThreadpoolListener::Record` with a number is where a task was handed out, `StartRegion` with the same number to
`StopRegion` where it ran. A task may enqueue further ones. An operator ends when all its tasks have signalled that they
are done: a task that ends later was preempted in between, and that is not the operator's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from profkit.frameworks.events.xplane import ThreadLine, XplaneEvent

RECORD, START, STOP = (f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion"))
EXECUTOR = ("ExecutorState::Process", "ExecutorDoneCallback")
"""The executor's own tasks: they run operators, and notify the caller when all have run."""


class Region(NamedTuple):
    """A task on a pool's thread, up to the end of its operator."""

    line: ThreadLine
    start_ns: int
    end_ns: int
    owner: XplaneEvent | None
    """The operator that it worked for."""
    after_ns: int
    """From the operator's end until the task's own."""


class _PoolTask(NamedTuple):
    """Where a task was handed out: by an operator, or else inside the task of this number."""

    operator: XplaneEvent | None
    inside: int


@dataclass
class _Open:
    """A region that has not ended, and whether the executor runs operators in it: then it is not a helper's work."""

    number: int
    start_ns: int
    is_executor: bool = False


def pool_regions(events: Iterable[XplaneEvent], operators: Iterable[XplaneEvent]) -> list[Region]:
    """Every task that is not the executor's own, with its operator as far as it can be found."""
    lines: dict[ThreadLine, list[XplaneEvent]] = {}
    works = {id(each) for each in operators}
    for event in events:
        if id(event) in works or event.name in {RECORD, START, STOP, *EXECUTOR}:
            lines.setdefault(event.thread, []).append(event)
    tasks: dict[int, _PoolTask] = {}
    regions: list[tuple[ThreadLine, int, int, int]] = []
    for line, found in lines.items():
        found.sort(key=lambda each: (each.start_ns, -each.end_ns))
        regions += ((line, *region) for region in _follow(found, works, tasks))
    return [_region(line, start, end, _owner(number, tasks)) for line, number, start, end in regions]


def _region(line: ThreadLine, start: int, end: int, owner: XplaneEvent | None) -> Region:
    last = end if owner is None else max(start, min(end, owner.end_ns))
    return Region(line, start, last, owner, end - last)


def _follow(events: list[XplaneEvent], works: set[int], tasks: dict[int, _PoolTask]) -> list[tuple[int, int, int]]:
    """One thread in order of time: fills `tasks`, returns (number, start, end) of the regions."""
    regions: list[tuple[int, int, int]] = []
    open_regions: list[_Open] = []
    open_operators: list[XplaneEvent] = []
    for event in events:
        now = event.start_ns
        while open_operators and open_operators[-1].end_ns <= now:
            open_operators.pop()
        if event.name == RECORD:
            operator = open_operators[-1] if open_operators else None
            tasks[event.stats.get("_p", 0)] = _PoolTask(operator, open_regions[-1].number if open_regions else 0)
        elif event.name == START:
            open_regions.append(_Open(event.stats.get("_c", 0), now))
        elif event.name == STOP:
            if open_regions:  # one that began before the profile is not known
                region = open_regions.pop()
                if not region.is_executor:
                    regions.append((region.number, region.start_ns, now))
        else:
            for region in open_regions:
                region.is_executor = True
            if id(event) in works:
                open_operators.append(event)
    return regions


def _owner(number: int, tasks: dict[int, _PoolTask]) -> XplaneEvent | None:
    seen = set()
    while number in tasks and number not in seen:
        seen.add(number)
        operator, inside = tasks[number]
        if operator is not None:
            return operator
        number = inside
    return None
