"""Tables of a foreign trace while they grow: its records in, a Capture with every link set out."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.capture.nesting import OpenRanges, depths_of, parents_of, thread_order, time_order
from profkit.capture.schema import (
    NONE,
    Activities,
    Calls,
    Capture,
    Column,
    MemoryEvents,
    Process,
    Ranges,
    Threads,
    taken,
)
from profkit.errors import TraceError

LARGEST = (1 << 62) - 1
"""Times and sizes above are damage: sums of a few of them would overflow."""
MOST_DEEP = 5000
"""Ranges in ranges; a stack that is deeper is damage, on which attribution would take hours."""
MOST_PLACES = 10_000
"""Processes, threads and GPUs of one trace; ids of more are damage: each has a time line of its own."""
LARGEST_SMALL = (1 << 31) - 1
LARGEST_COPY = 1 << 50


class Strings:
    """Texts that get numbers, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> tuple[str, ...]:
        """Every text, in the order of the numbers."""
        return tuple(self._numbers)


class ThreadIds:
    """Processes and threads by their ids, in the order in which they were met.

    `system_id` gives the system's number for an id; a text is not a number, and becomes the name.
    """

    def __init__(self, system_id: Callable[[Any], Any] = lambda number: number) -> None:
        self._system_id = system_id
        self._processes: dict[Any, int] = {}
        self._threads: dict[tuple[Any, Any], int] = {}
        self.process_names: dict[Any, str] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}

    def process(self, pid: Any) -> int:
        return self._processes.setdefault(pid, len(self._processes))

    def thread(self, pid: Any, tid: Any) -> int:
        number = self._threads.get((pid, tid))
        if number is None:
            self.process(pid)
            number = self._threads[pid, tid] = len(self._threads)
        return number

    def processes(self, start_ns: Column, end_ns: Column) -> tuple[Process, ...]:
        """All, with the first and the last moment of each."""
        rows = zip(self._processes, start_ns.tolist(), end_ns.tolist())
        made = [(*self._named(pid, self.process_names.get(pid, "")), start, end) for pid, start, end in rows]
        return tuple(Process(pid, name, start_ns=start, end_ns=end) for pid, name, start, end in made)

    def threads(self, strings: Strings, start_ns: Column, end_ns: Column) -> Threads:
        named = [self._named(tid, self.thread_names.get((pid, tid), "")) for pid, tid in self._threads]
        process = self.processes_of_threads()
        met: Counter[int] = Counter()
        before = []
        for number in process.tolist():
            before.append(met[number])
            met[number] += 1
        return Threads(
            process=process,
            index=np.array(before, np.uint32),
            os_thread_id=np.array([number for number, _ in named], np.uint64),
            name=np.array([strings.number(name) if name else NONE for _, name in named], np.int32),
            start_ns=start_ns,
            end_ns=end_ns,
        )

    def processes_of_threads(self) -> Column:
        return np.array([self._processes[pid] for pid, _ in self._threads], np.int32)

    def __len__(self) -> int:
        return len(self._processes)

    def _named(self, key: Any, name: str) -> tuple[int, str]:
        number = self._system_id(key)
        is_number = type(number) is int and 0 <= number <= LARGEST
        return (number, name) if is_number else (0, name or str(number))


class GrowingTable:
    """Rows that are appended one by one, kept as columns of machine integers."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._columns = [array("q") for _ in names]
        self._appends = [column.append for column in self._columns]

    def append(self, *values: int) -> None:
        for append, value in zip(self._appends, values):
            append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    def columns(self) -> dict[str, Column]:
        return {name: np.frombuffer(column, np.int64).copy() for name, column in zip(self.names, self._columns)}


def mapped(values: Column, function: Callable[[int], int]) -> Column:
    """The function of each value, called once for each distinct one."""
    known, place = np.unique(values, return_inverse=True)
    return np.array([function(each) for each in known.tolist()], np.int32)[place]


def stacked(parts: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
    """The rows of one part after another; NONE where a part does not have a column."""
    sizes = [len(next(iter(part.values()))) for part in parts]
    missing = [np.full(size, NONE, np.int64) for size in sizes]
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: np.concatenate([part.get(name, rest) for part, rest in zip(parts, missing)]) for name in names}


def linked_capture(
    ranges: Mapping[str, Column],
    calls: Mapping[str, Column],
    activities: Mapping[str, Column],
    memory: Mapping[str, Column],
    places: ThreadIds,
    strings: Strings,
    slack_ns: int = 0,
    **about: Any,
) -> Capture:
    """Sort the tables and set parent, range and call; `about` are the other fields of a Capture.

    `calls` and `activities` may both have `external`, a number that is the same for a launch and its work. A `range`
    that `activities` bring with them (a row of `ranges` as given) counts only where no call was recorded.
    """
    process_of = places.processes_of_threads()
    gpus = len(np.unique(np.concatenate([activities["device"], memory["device"]])))
    listed = len(about.get("devices", ()))
    for what, count in (("threads", len(process_of)), ("processes", len(places)), ("GPUs", max(gpus, listed))):
        if count > MOST_PLACES:
            raise TraceError(
                f"{about.get('path')} names {count:,} {what}, more than {MOST_PLACES:,}: their ids are damaged"
            )
    order = thread_order(ranges["thread"], ranges["start_ns"], ranges["end_ns"])
    ranges = _reordered(ranges, order)
    ranges["parent"] = parents_of(ranges["thread"], ranges["start_ns"], ranges["end_ns"])
    depth = depths_of(ranges["parent"])
    if depth.max(initial=0) > MOST_DEEP:
        raise TraceError(
            f"{about.get('path')}: ranges are nested {depth.max():,} deep, more than {MOST_DEEP:,}: "
            "they are damaged, or were begun and never ended"
        )
    made_ranges = Ranges(**ranges, depth=depth, end_thread=ranges["thread"])
    open_ranges = OpenRanges(made_ranges)

    calls = _reordered(calls, time_order(calls["start_ns"], calls["end_ns"]))
    calls["range"] = open_ranges.at(calls["thread"], calls["start_ns"], slack_ns)
    calls["process"] = taken(process_of, calls["thread"])

    activities, warnings = _linked_activities(activities, calls, order)
    about["warnings"] = (*about.get("warnings", ()), *warnings)

    memory = _reordered(memory, np.argsort(memory["time_ns"], kind="stable"))
    thread = memory["thread"]
    memory["range"] = open_ranges.at(thread, memory["time_ns"], slack_ns)
    memory["process"] = np.where(memory["process"] == NONE, taken(process_of, thread), memory["process"])
    for table in (calls, activities):
        table.pop("external", None)
    tables = (made_ranges, Calls(**calls), Activities(**activities), MemoryEvents(**memory))
    on_threads = [(table.thread, table.start_ns, table.end_ns) for table in tables[:2]]
    on_threads.append((thread, tables[3].time_ns, tables[3].time_ns))
    in_processes = [(taken(process_of, where), start, end) for where, start, end in on_threads]
    in_processes.append((tables[2].process, tables[2].start_ns, tables[2].end_ns))
    in_processes.append((tables[3].process, tables[3].time_ns, tables[3].time_ns))
    start_ns = min((int(start.min()) for _, start, _ in in_processes if len(start)), default=0)
    end_ns = max((int(end.max()) for _, _, end in in_processes if len(end)), default=0)
    _check_sums(*tables[:3], start_ns, end_ns, str(about.get("path", "")))
    return Capture(
        ranges=tables[0],
        calls=tables[1],
        activities=tables[2],
        memory_events=tables[3],
        processes=places.processes(*_extents(len(places), in_processes, start_ns)),
        threads=places.threads(strings, *_extents(len(process_of), on_threads, start_ns)),
        strings=strings.all(),
        origin_ns=start_ns,
        **about,
    )


def _extents(count: int, parts: Sequence[tuple[Column, Column, Column]], otherwise: int) -> tuple[Column, Column]:
    """First and last moment of each of `count` rows; parts are rows, starts and ends."""
    starts, ends = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    for rows, start_ns, end_ns in parts:
        known = rows != NONE
        np.minimum.at(starts, rows[known], start_ns[known])
        np.maximum.at(ends, rows[known], end_ns[known])
    is_seen = starts <= ends
    return np.where(is_seen, starts, otherwise), np.where(is_seen, ends, otherwise)


def _linked_activities(
    activities: Mapping[str, Column], calls: Mapping[str, Column], order: Column
) -> tuple[dict[str, Column], list[str]]:
    """Activities in order with call, range and process; and warnings. `order` is that of the ranges."""
    activities = _reordered(activities, time_order(activities["start_ns"], activities["end_ns"]))
    warnings = []
    if "bytes" in activities:
        odd = (activities["bytes"] < NONE) | (activities["bytes"] > LARGEST_COPY)
        activities["bytes"] = np.where(odd, NONE, activities["bytes"])
        if odd.any():
            warnings.append(
                f"{np.count_nonzero(odd):,} copies have a negative size or one above 1 PiB: it is taken as unknown"
            )
    call = activities["call"] = launches_of(activities, calls)
    shared = (call == NONE) & (activities["process"] == NONE)
    shared &= (activities["correlation"] > 0) & np.isin(activities["correlation"], calls["correlation"])
    if shared.any():
        warnings.append(
            f"{np.count_nonzero(shared):,} kernels or copies have correlation ids that several processes use, and the "
            "file does not say of which process they are: they have no launch; read the file of each process separately"
        )
    called = taken(calls["range"], call)
    if "range" in activities:
        moved = np.empty(len(order), np.int32)
        moved[order] = np.arange(len(order), dtype=np.int32)
        called = np.where(call == NONE, taken(moved, activities["range"]), called)
    activities["range"] = called
    activities["process"] = np.where(
        activities["process"] == NONE, taken(calls["process"], call), activities["process"]
    )
    return activities, warnings


def _check_sums(ranges: Ranges, calls: Calls, activities: Activities, start_ns: int, end_ns: int, path: str) -> None:
    """Sums must fit 64 bits: a trace of centuries is damage, and its tables would be wrong without a warning."""
    lanes = max(1, len(np.unique(activities.device)), len(np.unique(ranges.thread)))
    if (end_ns - start_ns) * lanes > LARGEST:
        years = (end_ns - start_ns) / 3.156e16
        raise TraceError(f"{path}: its first and last event are {years:.0f} years apart: the times are damaged")
    for name, table in (("ranges", ranges), ("calls", calls), ("activities", activities)):
        if float(np.sum(table["end_ns"] - table["start_ns"], dtype=np.float64)) > LARGEST:
            raise TraceError(f"{path}: durations of its {name} add up to more than 146 years: the times are damaged")
    moved = activities.bytes
    if float(np.sum(moved, where=moved > 0, dtype=np.float64)) > LARGEST:
        raise TraceError(f"{path}: its copies add up to more than 4 EiB: the sizes are damaged")


def launches_of(activities: Mapping[str, Column], calls: Mapping[str, Column] | Calls) -> Column:
    """The call of each activity: the first of the same correlation and process; NONE where none was recorded.

    Where an activity's process is not known (NONE), all calls that may be its launch must be of one process. 0 is no
    id: CUPTI uses it for none.
    """
    found = np.full(len(activities["correlation"]), NONE, np.int32)
    known = np.flatnonzero(calls["correlation"] > 0)
    if not len(known):
        return found
    process = calls["process"][known]
    ids, number = np.unique(calls["correlation"][known], return_inverse=True)
    place = _places(ids, activities["correlation"])
    is_told = activities["process"] != NONE

    owners, owner = np.unique(process, return_inverse=True)
    pairs, first = np.unique(number * len(owners) + owner, return_index=True)
    wanted = _places(owners, activities["process"])
    pair = _places(pairs, place * len(owners) + wanted)
    rows = is_told & (place != NONE) & (wanted != NONE) & (pair != NONE)
    found[rows] = known[first[pair[rows]]]

    rows = np.flatnonzero(~is_told & (place != NONE))
    if len(rows):
        found[rows] = _launches_of_any_process(rows, place[rows], known, number, process, activities, calls)
    return found


def _launches_of_any_process(
    rows: Column,
    place: Column,
    known: Column,
    number: Column,
    process: Column,
    activities: Mapping[str, Column],
    calls: Mapping[str, Column] | Calls,
) -> Column:
    """Other processes may use this correlation: no launch begins after its work has ended or has another `external`."""
    has_external = "external" in activities
    externals, external = np.unique(
        calls["external"][known] if has_external else np.zeros(len(known), np.int64), return_inverse=True
    )
    groups, first, group = np.unique(number * len(externals) + external, return_index=True, return_inverse=True)
    start_ns = calls["start_ns"][known]
    # A launch is certain until the first call of a second process begins.
    is_other = process != process[first[group]]
    second_ns = np.full(len(groups), np.iinfo(np.int64).max)
    np.minimum.at(second_ns, group[is_other], start_ns[is_other])
    asked = _places(externals, activities["external"][rows]) if has_external else np.zeros(len(rows), np.int64)
    mine = np.where(asked == NONE, NONE, _places(groups, place * len(externals) + asked))
    end_ns = activities["end_ns"][rows]
    is_certain = (mine != NONE) & (start_ns[first[mine]] <= end_ns) & (end_ns < second_ns[mine])
    return np.where(is_certain, known[first[mine]], NONE)


def _places(values: Column, wanted: Column) -> Column:
    """Where each wanted number stands among ascending ones; NONE where it does not."""
    place = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[place] == wanted, place, NONE)


def _reordered(table: Mapping[str, Column], order: Column) -> dict[str, Column]:
    return {name: column[order] for name, column in table.items()}
