"""Whose time it was, on one of three clocks: a Capture in; Shares out, which add up to that clock to the nanosecond.

- threads: the time of threads, from the first to the last moment of each; a moment is the innermost range's.
- steps: the wall clock of a network's steps, shared by the operators that run at once.
- devices: the wall clock of every GPU; while it is idle, the thread that launches its next work tells why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit.attribution.device.hosts import Hosts
from profkit.attribution.device.lanes import BUSY, DevicePart, Lanes, lanes_of
from profkit.attribution.networks.operators import REMAINDERS, Operators, operators_in
from profkit.attribution.networks.work import OperatorWork
from profkit.attribution.threads import ThreadTime, choose_threads, thread_time
from profkit.attribution.tree import Tree, is_mark, tree_of
from profkit.capture.schema import NONE, Capture, Column
from profkit.errors import UsageError

THREADS, STEPS, DEVICES = CLOCKS = ("threads", "steps", "devices")
OWN, OUTSIDE = "own", "outside"


@dataclass(frozen=True, eq=False, kw_only=True)
class Shares:
    """Pieces of a clock as columns, with whose they are and what they went into. All `ns` add up to `wall_ns`."""

    capture: Capture
    clock: str
    parts: tuple[str, ...]
    """Names of what `part` numbers."""
    range: Column
    """Row of the range that owns it, or in which it was launched; NONE: nobody."""
    activity: Column
    """Row of the activity that runs; NONE: none does."""
    part: Column
    ns: Column
    step: Column
    """NONE where the clock is not that of steps."""
    wall_ns: int

    def by_part(self) -> dict[str, int]:
        """Nanoseconds of each part."""
        return {name: int(self.ns[self.part == number].sum()) for number, name in enumerate(self.parts)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreadShares(Shares):
    """A share per range, in their order, then one per counted thread: its time in no range."""

    tree: Tree
    times: ThreadTime
    is_thread_chosen: Column

    @cached_property
    def is_chosen(self) -> Column:
        """Rows of ranges of the chosen threads."""
        chosen: Column = self.is_thread_chosen[self.capture.ranges.thread]
        return chosen

    @cached_property
    def is_shown(self) -> Column:
        """Of these: ranges and spans, which tables show."""
        return self.is_chosen & ~is_mark(self.capture)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepShares(Shares):
    """A share per operator of a step, then three per step: the time in which no operator ran."""

    operators: Operators
    work: OperatorWork | None = None
    """Flops and least bytes of the operators, where the network is known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceShares(Shares):
    """The segments of every GPU; of a capture without GPU work, of every thread with ranges."""

    lanes: Lanes
    hosts: Hosts


def account(
    capture: Capture, clock: str | None = None, process: int | None = None, thread: str | None = None
) -> Shares:
    """Divide a clock of the capture, the first of those that it has unless one is named.

    `process` (a pid) and `thread` (a name or an operating system's id) leave the other threads out of their clock.
    """
    chosen = clock or clocks_of(capture)[0]
    if chosen == THREADS:
        return _account_threads(capture, process, thread)
    if process is not None or thread is not None:
        raise UsageError(f"a process or thread can be chosen of the time of threads only, not of {chosen}")
    if chosen not in _ACCOUNTS:
        raise UsageError(f"a clock is one of {', '.join(CLOCKS)}, not {chosen!r}")
    return _ACCOUNTS[chosen](capture)


def clocks_of(capture: Capture) -> tuple[str, ...]:
    """The clocks that it has, first the one that its source is about: of threads where a tracer recorded a program."""
    steps = [STEPS] if len(capture.steps) else []
    devices = [DEVICES] if capture.has_device else []
    if capture.ranges.has("source"):
        return (THREADS, *steps, *devices)
    # Without GPU work a profiler's trace has the same rows: their time is then that of its threads.
    return (*steps, *devices, THREADS) if steps else (DEVICES, THREADS)


def _account_threads(capture: Capture, process: int | None, thread: str | None) -> ThreadShares:
    is_chosen = choose_threads(capture, process, thread)
    tree, times = tree_of(capture), thread_time(capture, is_chosen)
    ranges, counted = capture.ranges, np.flatnonzero(times.is_counted)
    own = tree.own_ns if is_chosen.all() else np.where(is_chosen[ranges.thread], tree.own_ns, 0)
    every = np.ones(len(ranges), np.uint8)
    explained = tree.table.sum_by_group(own, every, ranges.thread, len(capture.threads))
    rest = (times.wall_ns - explained)[counted]
    rows = len(ranges) + len(rest)
    part, owner = np.zeros(rows, np.int8), np.arange(rows, dtype=np.int32)
    part[len(ranges) :], owner[len(ranges) :] = 1, NONE
    return ThreadShares(
        capture=capture,
        clock=THREADS,
        parts=(OWN, OUTSIDE),
        range=owner,
        activity=_nothing(rows),
        part=part,
        ns=np.concatenate([own, rest]),
        step=_nothing(rows),
        wall_ns=int(times.wall_ns[counted].sum()),
        tree=tree,
        times=times,
        is_thread_chosen=is_chosen,
    )


def _account_steps(capture: Capture) -> StepShares:
    operators = operators_in(capture)
    own, steps = operators.rows, np.arange(operators.steps)
    rest = len(REMAINDERS) * len(steps)
    return StepShares(
        capture=capture,
        clock=STEPS,
        parts=(OWN, *REMAINDERS),
        range=np.concatenate([own, np.full(rest, NONE)]),
        activity=_nothing(len(own) + rest),
        part=np.concatenate([np.zeros(len(own), np.int64), np.repeat(np.arange(len(REMAINDERS)) + 1, len(steps))]),
        ns=np.concatenate([operators.wall_ns[own], *(operators.remainders[name] for name in REMAINDERS)]),
        step=np.concatenate([operators.step[own], *[steps] * len(REMAINDERS)]),
        wall_ns=int(operators.step_ns.sum()),
        operators=operators,
    )


def _account_devices(capture: Capture) -> DeviceShares:
    hosts = Hosts(capture)
    lanes = lanes_of(capture, hosts)
    return DeviceShares(
        capture=capture,
        clock=DEVICES,
        parts=tuple(part.name.lower() for part in DevicePart),
        range=lanes.range,
        activity=np.where(np.isin(lanes.part, BUSY), lanes.activity, NONE),
        part=lanes.part,
        ns=lanes.duration_ns,
        step=_nothing(len(lanes.part)),
        wall_ns=lanes.wall_ns,
        lanes=lanes,
        hosts=hosts,
    )


def _nothing(rows: int) -> Column:
    """A column without any row of another table; it takes no memory."""
    return np.broadcast_to(np.int32(NONE), (rows,))


_ACCOUNTS: Mapping[str, Callable[[Capture], Shares]] = {STEPS: _account_steps, DEVICES: _account_devices}
