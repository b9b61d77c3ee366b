"""Who used the time, on one of three clocks: a Capture in; Shares out, which add up to that clock to the nanosecond.

- threads: the time of threads, from the first to the last moment of each; a moment is the innermost range's.
- steps: the wall clock of a network's steps, shared by the operators that run at once.
- devices: the wall clock of every GPU; the reason for idle time is the state of the thread that launches its next work.
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
from profkit.attribution.titles import thread_titles
from profkit.attribution.tree import Tree, is_in_tree, is_mark, tree_of
from profkit.capture.schema import NONE, Capture, Column
from profkit.errors import UsageError, did_you_mean, listed

THREADS, STEPS, DEVICES = CLOCKS = ("threads", "steps", "devices")
OWN, OUTSIDE = "own", "outside"
_NAMED_AT_MOST = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Shares:
    """Pieces of a clock as columns, each with its owner and its part. All `ns` add up to `wall_ns`."""

    capture: Capture
    clock: str
    parts: tuple[str, ...]
    """The parts by number."""
    range: Column
    """Row of the range that owns it, or in which it was launched; NONE: no range."""
    activity: Column
    """Row of the activity that runs; NONE: none does."""
    part: Column
    ns: Column
    step: Column
    """NONE where the clock is not that of steps."""
    wall_ns: int

    def by_part(self) -> dict[str, int]:
        return {name: int(self.ns[self.part == number].sum()) for number, name in enumerate(self.parts)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreadShares(Shares):
    """A share per range, in their order, then one per counted thread: its time in no range."""

    tree: Tree
    thread_ns: Column
    """The extent of every thread, from its first to its last known moment."""
    is_counted: Column
    """Threads that are part of the table's wall_ns."""
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
    """The clocks that it has, the main one of its source first: that of threads where a tracer recorded a program."""
    steps = [STEPS] if len(capture.steps) else []
    devices = [DEVICES] if capture.has_device else []
    if capture.ranges.has("source"):
        return (THREADS, *steps, *devices)
    # Without GPU work a profiler's trace has the same rows: their time is then that of its threads.
    return (*steps, *devices, THREADS) if steps else (DEVICES, THREADS)


def _account_threads(capture: Capture, process: int | None, thread: str | None) -> ThreadShares:
    is_chosen = _choose_threads(capture, process, thread)
    tree, (thread_ns, is_counted) = tree_of(capture), _thread_time(capture, is_chosen)
    ranges, counted = capture.ranges, np.flatnonzero(is_counted)
    own = tree.own_ns if is_chosen.all() else np.where(is_chosen[ranges.thread], tree.own_ns, 0)
    every = np.ones(len(ranges), np.uint8)
    explained = tree.table.sum_by_group(own, every, ranges.thread, len(capture.threads))
    rest = (thread_ns - explained)[counted]
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
        wall_ns=int(thread_ns[counted].sum()),
        tree=tree,
        thread_ns=thread_ns,
        is_counted=is_counted,
        is_thread_chosen=is_chosen,
    )


def _thread_time(capture: Capture, is_chosen: Column) -> tuple[Column, Column]:
    """Extents of all threads; counted are the chosen ones that have ranges.

    A pool's idle threads have none and would only add idle time. When no chosen thread has ranges,
    the first thread of every process is counted, which spans the process (or what was chosen): all of it is remainder.
    """
    ranges, threads = capture.ranges, capture.threads
    in_tree = is_in_tree(capture)
    rows = slice(None) if in_tree.all() else np.flatnonzero(in_tree)
    start, end = threads.start_ns.astype(np.int64), threads.end_ns.astype(np.int64)
    has_ranges = np.zeros(len(threads), np.bool_)
    if in_tree.any():
        # Ranges left open end with their process, which may be later than their thread's last event. Rows are grouped
        # by thread, so one maximum per stretch suffices.
        owner = ranges.thread[rows]
        first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        np.minimum.at(start, owner[first], np.minimum.reduceat(ranges.start_ns[rows], first))
        np.maximum.at(end, owner[first], np.maximum.reduceat(ranges.end_ns[rows], first))
        has_ranges[owner[first]] = True
    is_counted = has_ranges & is_chosen
    if not is_counted.any():
        is_first = (threads.index == 0) & is_chosen
        is_counted = is_first if is_first.any() else is_chosen
    return np.maximum(end - start, 0), is_counted


def _choose_threads(capture: Capture, process: int | None, thread: str | None) -> Column:
    """The chosen threads; a filter without a match is a UsageError that lists the threads."""
    is_chosen = np.ones(len(capture.threads), np.bool_)
    if process is not None:
        pids = np.array([each.pid for each in capture.processes], np.int64)
        if process not in pids:
            known = ", ".join(map(str, sorted(set(pids.tolist())))) or "none"
            raise UsageError(f"the capture has no process {process}; processes: {known}")
        is_chosen &= pids[capture.threads.process] == process
    if thread is not None:
        is_named = _is_thread_named(capture, thread)
        if not (is_named & is_chosen).any():
            raise UsageError(_no_such_thread(capture, thread, is_chosen))
        is_chosen &= is_named
    return is_chosen


def _is_thread_named(capture: Capture, thread: str) -> Column:
    threads = capture.threads
    known = zip(threads.name.tolist(), threads.os_thread_id.tolist(), thread_titles(capture))
    return np.array(
        [thread in (capture.strings[name] if name >= 0 else "", str(number), title) for name, number, title in known],
        np.bool_,
    )


def _no_such_thread(capture: Capture, thread: str, is_chosen: Column) -> str:
    names = [title for title, chosen in zip(thread_titles(capture), is_chosen.tolist()) if chosen]
    hint = did_you_mean(thread, names)
    return f"the capture has no thread {thread!r}; {hint}threads: {listed(names, _NAMED_AT_MOST)}"


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
