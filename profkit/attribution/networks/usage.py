"""Tables of a network's step: a capture in, usage by kind, type, layer, phase, thread or operator out.

Time comes from the pass that records time, bytes from the one that records memory; the two are joined by row. Numbers
are sums over the recorded steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.attribution.networks.memory import OperatorBytes, operator_bytes
from profkit.attribution.networks.operators import REMAINDERS, Operators, operators_of
from profkit.attribution.networks.pool import own_pool_ns
from profkit.attribution.networks.work import OperatorWork, operator_work
from profkit.attribution.usage import Remainder, Usage, UsageRows
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.schema import NONE, Column
from profkit.errors import UsageError

NO_LAYER, NO_PHASE, NO_TYPE = "(no layer)", "(no phase)", "(no type)"
_TYPES_NAMED = 5
_PLACES = ("kind", "layer", "phase", "type")
Name = Callable[[Operators, int], str]


def _place(column: str, absent: str) -> Name:
    return lambda operators, row: operators.text(column, row) or absent


def _thread(operators: Operators, row: int) -> str:
    number = int(operators.recording.spans["thread"][row])
    threads = operators.recording.threads
    name = str(threads[number]["name"])
    several = sum(str(thread["name"]) == name for thread in threads) > 1
    return f"{name} ({threads[number]['id']})" if several else name


def _operator(operators: Operators, row: int) -> str:
    return "/".join(GROUPINGS[column](operators, row) for column in ("layer", "phase", "type"))


GROUPINGS: Mapping[str, Name] = {
    "kind": _place("kind", ""),
    "type": _place("type", NO_TYPE),
    "layer": _place("layer", NO_LAYER),
    "phase": _place("phase", NO_PHASE),
    "thread": _thread,
    "operator": _operator,
}
_COLUMNS = {
    "kind": ("kind",),
    "type": ("type",),
    "layer": ("layer",),
    "phase": ("phase",),
    "thread": (),
    "operator": ("layer", "phase", "type"),
}


def network_usage(capture: NetworkCapture, by: str = "kind") -> Usage:
    """Time, bytes and work of the recorded steps by one of GROUPINGS, the largest own time first."""
    if by not in GROUPINGS:
        raise UsageError(f"a table of a network can be by {', '.join(GROUPINGS)}, not by {by!r}")
    operators = operators_of(capture)
    groups = _OperatorGroups(operators, by)
    work = operator_work(capture, operators)
    pool, pool_notes = _pool(capture, operators, groups, by)
    columns: dict[str, list[Any]] = {
        "name": groups.names,
        "calls": groups.outermost().tolist(),
        "inclusive_ns": groups.inclusive().tolist(),
        "exclusive_ns": groups.sums(operators.wall_ns).tolist(),
        "pool_cpu_ns": pool,
        "flops": groups.known_sums(work.flops),
        "moved_bytes": groups.known_sums(work.bytes),
        **{column: groups.common(column) for column in _PLACES},
    }
    memory = operator_bytes(capture, operators)
    only_in_memory = _add_memory(columns, memory, by, operators)
    order = sorted(range(len(columns["name"])), key=lambda row: (-columns["exclusive_ns"][row], columns["name"][row]))
    left = {name: int(operators.remainders[name].sum()) for name in REMAINDERS}
    observed = operators.observed_remainders
    wall_ns = int(operators.step_ns.sum())
    return Usage(
        by=by,
        wall_ns=wall_ns,
        remainder_ns=sum(left.values()),
        elapsed_ns=wall_ns,
        threads=len({int(thread) for thread in operators.recording.spans["thread"][operators.rows]}),
        dropped=int(operators.recording.facts.get("lost", 0)),
        total_alloc_bytes=memory.total_bytes if memory else None,
        unattributed_alloc_bytes=memory.unattributed_bytes if memory else None,
        total_peak_bytes=memory.peak_bytes if memory else None,
        rows=UsageRows(columns).in_order(order),
        steps=operators.steps,
        remainders=tuple(Remainder(name, left[name] if name in observed else None) for name in REMAINDERS),
        subject={
            "network": dict(capture.network),
            "framework": capture.framework,
            "mode": capture.mode,
            "threads": capture.threads,
            "is_training": capture.is_training,
            "data": capture.data,
        },
        notes=(*pool_notes, *_notes(operators, work, memory, only_in_memory)),
    )


class _OperatorGroups:
    """Rows of operators by name, and sums over them."""

    def __init__(self, operators: Operators, by: str) -> None:
        self._operators = operators
        self._rows = operators.rows
        self.of_span = np.full(len(operators.recording), NONE, np.int64)
        numbers: dict[str, int] = {}
        codes = [getattr(operators, column)[self._rows].astype(np.int64) for column in _COLUMNS[by]]
        codes = codes or [operators.recording.spans["thread"][self._rows].astype(np.int64)]
        # One name per distinct place, not per span.
        _, first, of_row = np.unique(np.stack(codes), axis=1, return_index=True, return_inverse=True)
        named = [numbers.setdefault(GROUPINGS[by](operators, int(self._rows[row])), len(numbers)) for row in first]
        self.of_span[self._rows] = np.array(named, np.int64)[of_row.reshape(-1)] if named else NONE
        self.names = list(numbers)

    def sums(self, values: Column) -> Column:
        """Of a column, without what is not known."""
        result = np.zeros(len(self.names), np.int64)
        np.add.at(result, self.of_span[self._rows], np.maximum(values[self._rows], 0))
        return result

    def known_sums(self, values: Column) -> list[int | None]:
        """The same, None where nothing is known."""
        return [int(total) if known else None for total, known in zip(self.sums(values), self._known(values))]

    def largest(self, values: Column) -> list[int | None]:
        """The largest of a column, None where nothing is known."""
        result = np.full(len(self.names), NONE, np.int64)
        np.maximum.at(result, self.of_span[self._rows], values[self._rows])
        return [None if value == NONE else int(value) for value in result]

    def outermost(self) -> Column:
        """Calls not nested inside another call of the same group."""
        is_inner = np.zeros(len(self.of_span), np.bool_)
        above = self._operators.above[self._rows]
        while (above != NONE).any():
            is_inner[self._rows] |= (above != NONE) & (self.of_span[above] == self.of_span[self._rows])
            above = np.where(above != NONE, self._operators.above[above], NONE)
        return np.bincount(self.of_span[self._rows[~is_inner[self._rows]]], minlength=len(self.names))

    def inclusive(self) -> Column:
        """Union of the intervals of each group on each thread, summed over threads."""
        operators, rows = self._operators, self._rows
        thread = operators.recording.spans["thread"][rows]
        start, end = operators.start_ns[rows], operators.end_ns[rows]
        order = np.lexsort((start, thread, self.of_span[rows]))
        result = [0] * len(self.names)
        last, reached = None, 0
        columns = (self.of_span[rows][order], thread[order], start[order], end[order])
        for group, number, begin, finish in zip(*(column.tolist() for column in columns)):
            if (group, number) != last:
                last, reached = (group, number), begin
            result[group] += max(0, finish - max(begin, reached))
            reached = max(reached, finish)
        return np.array(result, np.int64)

    def common(self, column: str) -> list[str | None]:
        """The kind, layer, phase or type that all operators of a group have; None where they differ or have none."""
        values = getattr(self._operators, column)[self._rows].astype(np.int64)
        lowest = np.full(len(self.names), np.iinfo(np.int64).max)
        highest = np.full(len(self.names), np.iinfo(np.int64).min)
        one = np.zeros(len(self.names), np.int64)
        groups = self.of_span[self._rows]
        np.minimum.at(lowest, groups, values)
        np.maximum.at(highest, groups, values)
        one[groups] = self._rows
        found = [self._operators.text(column, int(row)) or None for row in one]
        return [text if low == high else None for text, low, high in zip(found, lowest, highest)]

    def _known(self, values: Column) -> list[bool]:
        counts = np.bincount(self.of_span[self._rows][values[self._rows] != NONE], minlength=len(self.names))
        return [bool(count) for count in counts]


def _pool(
    capture: NetworkCapture, operators: Operators, groups: _OperatorGroups, by: str
) -> tuple[list[int | None], list[str]]:
    """CPU time of helper threads by row: of the time pass, or of the one for primitives when only that saw it.

    Also what the reader must know: the steps of another pass may have been slower, and so may its helpers.
    """
    own = own_pool_ns(operators)
    if own is not None:
        return groups.known_sums(own), []
    unknown: list[int | None] = [None] * len(groups.names)
    if capture.recording("primitives") is None or by == "thread":
        return unknown, []
    other = operators_of(capture, "primitives")
    own = own_pool_ns(other)
    if own is None:
        return unknown, []
    found = _OperatorGroups(other, by)
    sums = dict(zip(found.names, found.known_sums(own)))
    here, there = (float(np.median(each.step_ns)) / 1e6 for each in (operators, other))
    note = f"pool CPU is of another pass, whose steps took {there:.3g} ms (median), those of the times {here:.3g} ms"
    return [_scaled(sums.get(name), operators.steps, other.steps) for name in groups.names], [note]


def _add_memory(
    columns: dict[str, list[Any]], memory: OperatorBytes | None, by: str, operators: Operators
) -> list[str]:
    """Bytes by row; rows that only the memory pass has come with no time. Returns these."""
    names = list(columns["name"])
    fields = ("requested_bytes", "temporary_bytes", "peak_bytes")
    if memory is None or (by == "thread" and memory.operators.recording is not operators.recording):
        columns.update({field: [None] * len(names) for field in fields})
        return []
    groups = _OperatorGroups(memory.operators, by)
    found = {
        "requested_bytes": groups.known_sums(memory.requested),
        "temporary_bytes": groups.known_sums(memory.temporary),
        "peak_bytes": groups.largest(memory.peak),
    }
    place = {name: number for number, name in enumerate(groups.names)}
    has_bytes = [value is not None for value in found["requested_bytes"]]
    extra = [name for name in groups.names if name not in set(names) and has_bytes[place[name]]]
    steps = operators.steps, memory.operators.steps
    for column, values in list(columns.items()):
        columns[column] = [*values, *[_NOTHING.get(column)] * len(extra)]
    columns["name"][len(names) :] = extra
    for column in _PLACES:
        common = groups.common(column)
        columns[column][len(names) :] = [common[place[name]] for name in extra]
    for field, sums in found.items():
        known = [sums[place[name]] if name in place else None for name in columns["name"]]
        columns[field] = known if field == "peak_bytes" else [_scaled(value, *steps) for value in known]
    return extra


_NOTHING = {"calls": 0, "inclusive_ns": 0, "exclusive_ns": 0}


def _scaled(value: int | None, steps: int, recorded: int) -> int | None:
    """A sum over the steps of one pass as one over those of the other."""
    return value if value is None or steps == recorded or not recorded else round(value * steps / recorded)


def _notes(
    operators: Operators, work: OperatorWork, memory: OperatorBytes | None, only_in_memory: Sequence[str]
) -> list[str]:
    notes = []
    if memory is None:
        notes.append("bytes were not recorded")
    elif memory.operators.recording is not operators.recording:
        passes = operators.recording.source, memory.operators.recording.source
        notes.append(f"two passes over the steps: time by {passes[0]}, bytes by {passes[1]}, joined by row")
    if only_in_memory:
        notes.append(f"only in the pass for bytes, hence without time: {_listed(only_in_memory)}")
    if operators.unknown_types:
        named = [f"{name} {count:,}" for name, count in operators.unknown_types.items()]
        notes.append(f"kind other, types not in any table: {_listed(named)}")
    if operators.cut_rows:
        many = f"{operators.cut_rows:,} operators extended beyond their step"
        one = "1 operator extended beyond its step"
        notes.append(f"{one if operators.cut_rows == 1 else many} by {operators.cut_ns:,} ns in total: cut")
    if operators.outside_rows:
        plural = "" if operators.outside_rows == 1 else "s"
        notes.append(f"{operators.outside_rows:,} operator{plural} ran outside the steps: in no row")
    if work.missing:
        places = [" ".join(filter(None, place)) for place in work.missing]
        notes.append(f"flops of these are in no row, no operator was recorded: {_listed(places)}")
    return notes + [str(note) for note in operators.recording.facts.get("notes", ())]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TYPES_NAMED} more" if len(names) > _TYPES_NAMED else ""
    return ", ".join(names[:_TYPES_NAMED]) + more
