"""What a GPU did in a traced program: columns of the reader in, tables of a Capture on its clock out.

Two passes, since CUPTI promises no order: calls find their ranges first, then kernels, copies and memory their calls.
A call belongs to the range that CUPTI was told about when it began. Without that, it belongs to the innermost range on
its thread that was open at its time and had begun before CUPTI was told of any: a later one would have been told, and
two clocks cannot say whether it ended just before the call. What finds nothing stays without a range, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from profkit import _core
from profkit.capture.cupti_numbers import DIRECTIONS, MEMORY_KINDS, OVERHEADS, name_of_copy, translated
from profkit.capture.cupti_pools import memory_pools
from profkit.capture.importers.range_levels import level_of_annotation, level_of_operator
from profkit.capture.nesting import OpenRanges, time_order
from profkit.capture.schema import (
    NONE,
    Activities,
    ActivityKind,
    Calls,
    Capture,
    Column,
    CopyDirection,
    Device,
    MemoryEvents,
    MemoryKind,
    RangeKind,
    Ranges,
    Source,
    Threads,
)
from profkit.capture.trace_tables import LARGEST, launches_of

LATEST_NS = np.iinfo(np.int64).max
Columns = Mapping[str, Column]


def with_device(capture: Capture, device: Mapping[str, Columns], counts: Sequence[Mapping[str, int]]) -> Capture:
    """The capture with what its GPUs did; the same where nothing was recorded. `counts` are those of each process."""
    return _Maker(capture, device, counts).made() if any(each["entries"] for each in counts) else capture


class _Maker:
    def __init__(self, capture: Capture, device: Mapping[str, Columns], counts: Sequence[Mapping[str, int]]) -> None:
        self._capture = capture
        self._device = device
        self._counts = counts
        self._strings = list(capture.strings)
        self._number_of: dict[str, int] = {}

    def made(self) -> Capture:
        threads, of_call = self._threads()
        ranges = self._ranges()
        calls, found_by = self._calls(ranges, of_call)
        activities = self._activities(calls)
        memory = self._memory(calls)
        return replace(
            self._capture,
            strings=tuple(self._strings),
            threads=threads,
            ranges=ranges,
            calls=calls,
            activities=activities,
            memory_events=memory,
            devices=self._devices(),
            facts=self._facts(found_by, calls, activities, memory),
        )

    def _ranges(self) -> Ranges:
        """With what each stands for, told by its name."""
        table = self._capture.ranges
        titles, title_of = _distinct(table.domain, table.name, table.source)
        levels = [_level(self._title(domain, name), source) for domain, name, source in titles]
        return replace(table, level=np.array(levels, np.int8)[title_of])

    def _title(self, domain: int, name: int) -> str:
        return self._strings[name] if domain == NONE else f"{self._strings[domain]}:{self._strings[name]}"

    def _number(self, text: str) -> int:
        """Of a text that the capture does not have yet."""
        number = self._number_of.setdefault(text, len(self._strings))
        if number == len(self._strings):
            self._strings.append(text)
        return number

    def _calls(self, ranges: Ranges, thread: Column) -> tuple[Calls, dict[str, int]]:
        raw = self._device["calls"]
        order = time_order(raw["start_ns"], raw["end_ns"])
        thread, start_ns, process = thread[order], raw["start_ns"][order], raw["process"][order]
        is_range = ranges.kind == np.uint8(RangeKind.RANGE)
        told = raw["token_range"][order]
        # Spans have no children: what is launched while one is open belongs to the range around it.
        told = np.append(np.where(is_range, np.arange(len(ranges), dtype=np.int32), ranges.parent), NONE)[told]
        seen = OpenRanges(ranges).at(thread, start_ns)
        # A token whose range is not in the file says that some range was open.
        since_ns = np.where(raw["has_token"][order], LATEST_NS, self._told_since(told, process, ranges)[process])
        untold = _untold(seen, ranges, since_ns)
        calls = Calls(
            thread=thread,
            start_ns=start_ns,
            end_ns=raw["end_ns"][order],
            name=raw["name"][order],
            process=process,
            correlation=raw["correlation"][order],
            range=np.where(told == NONE, untold, told),
            return_code=raw["return_code"][order],
            is_driver=raw["is_driver"][order],
        )
        found_by = {
            "calls in the range that CUPTI was told": int(np.count_nonzero(told != NONE)),
            "calls in the range open at their time": int(np.count_nonzero((told == NONE) & (untold != NONE))),
            "calls in no range": int(np.count_nonzero((told == NONE) & (untold == NONE))),
            "calls of which both were known and differ": int(
                np.count_nonzero((told != NONE) & (seen != NONE) & (told != seen))
            ),
        }
        return calls, found_by

    def _told_since(self, told: Column, process: Column, ranges: Ranges) -> Column:
        """When CUPTI was first told of a range, by process; never, where it dropped records: a token may be missing."""
        since = np.full(len(self._capture.processes), LATEST_NS)
        is_told = told != NONE
        np.minimum.at(since, process[is_told], ranges.start_ns[told[is_told]])
        dropped = [each["dropped_by_cupti"] + each["dropped_too_slow"] for each in self._counts]
        since[np.flatnonzero(dropped)] = LATEST_NS
        return since

    def _threads(self) -> tuple[Threads, Column]:
        """The threads with those that only made calls, and the thread of each call.

        The system uses a number again: of several threads the last that had begun is meant.
        """
        table, calls = self._capture.threads, self._device["calls"]
        known: dict[tuple[int, int], list[int]] = {}
        for row, key in enumerate(zip(table.process.tolist(), table.os_thread_id.tolist())):
            known.setdefault(key, []).append(row)
        keys, key_of = _distinct(calls["process"], calls["os_thread_id"])
        found = np.full(len(key_of), NONE, np.int32)
        added: list[tuple[int, int, int, int, int]] = []
        for place, (process, number) in enumerate(keys):
            rows = known.get((process, number))
            asked = np.flatnonzero(key_of == place)
            if rows is None:
                found[asked] = len(table) + len(added)
                index = np.count_nonzero(table.process == process) + sum(each[0] == process for each in added)
                times = int(calls["start_ns"][asked].min()), int(calls["end_ns"][asked].max())
                added.append((process, int(index), number, *times))
                continue
            begins = np.array([table.start_ns[row] for row in rows])
            order = np.argsort(begins, kind="stable")
            latest = np.searchsorted(begins[order], calls["start_ns"][asked], "right") - 1
            found[asked] = np.array(rows, np.int32)[order[np.maximum(latest, 0)]]
        columns = zip(("process", "index", "os_thread_id", "start_ns", "end_ns"), zip(*added))
        return _appended(table, Threads(**{name: np.array(values) for name, values in columns})), found

    def _activities(self, calls: Calls) -> Activities:
        raw = self._device["activities"]
        order = time_order(raw["start_ns"], raw["end_ns"])
        made = {name: column[order] for name, column in raw.items()}
        made["direction"] = translated(made.pop("copy_kind"), DIRECTIONS, CopyDirection.OTHER)
        for end in ("source_kind", "target_kind"):
            made[end] = translated(made[end], MEMORY_KINDS, MemoryKind.OTHER)
        is_kernel = made["kind"] == ActivityKind.KERNEL
        made["direction"][made["kind"] != ActivityKind.COPY] = NONE
        made["source_kind"][made["kind"] != ActivityKind.COPY] = NONE
        made["target_kind"][is_kernel] = NONE
        made["name"] = self._activity_names(made, is_kernel)
        made["call"] = launches_of(made, calls)
        made["range"] = np.append(calls.range, NONE)[made["call"]]
        return Activities(**made)

    def _activity_names(self, made: Columns, is_kernel: Column) -> Column:
        names = self._kernel_names(np.where(is_kernel, made["name"], NONE))
        rest = np.flatnonzero(~is_kernel)
        kinds, kind_of = _distinct(*(made[name][rest] for name in ("kind", "direction", "source_kind", "target_kind")))
        texts = np.array([self._number(name_of_copy(*kind)) for kind in kinds], np.int32)
        names[rest] = texts[kind_of]
        return names

    def _memory(self, calls: Calls) -> MemoryEvents:
        raw = self._device["memory"]
        order = np.argsort(raw["time_ns"], kind="stable")
        made = {name: column[order] for name, column in raw.items()}
        call = launches_of(made, calls)
        made.pop("correlation")
        made["kind"] = translated(made["kind"], MEMORY_KINDS, MemoryKind.OTHER)
        made["pool"] = made["pool"].astype(np.int64)
        made["range"], made["thread"] = (np.append(column, NONE)[call] for column in (calls.range, calls.thread))
        return MemoryEvents(**made)

    def _kernel_names(self, texts: Column) -> Column:
        """CUPTI has the names as the compiler made them."""
        known, place = _distinct(texts)
        written = ["" if text == NONE else self._strings[text] for (text,) in known]
        said = _core.demangle_names(written)
        numbers = [NONE if text == NONE else self._number(name) for (text,), name in zip(known, said)]
        made: Column = np.array(numbers, np.int32)[place]
        return made

    def _devices(self) -> tuple[Device, ...]:
        """Each device once, though every process tells of it."""
        renamed = {
            "compute_major": "capability_major",
            "compute_minor": "capability_minor",
            "memory_bandwidth_kb_s": "memory_bandwidth",
        }
        columns = [field.name for field in fields(Device)]
        raw = [self._device["devices"][renamed.get(name, name)].tolist() for name in columns]
        # A number above is damage.
        rows = [{name: value if value <= LARGEST else NONE for name, value in zip(columns, row)} for row in zip(*raw)]
        found = {row["id"]: Device(**row | {"name": self._strings[row["name"]]}) for row in reversed(rows)}
        return tuple(found[number] for number in sorted(found))

    def _facts(
        self, found_by: Mapping[str, int], calls: Calls, activities: Activities, memory: MemoryEvents
    ) -> dict[str, Any]:
        def total(name: str) -> int:
            return sum(each[name] for each in self._counts)

        overhead = self._device["overhead"]
        spent = overhead["end_ns"] - overhead["start_ns"]
        kinds = {int(kind): int(spent[overhead["kind"] == kind].sum()) for kind in np.unique(overhead["kind"])}
        return {
            **found_by,
            "activities without a call": int(np.count_nonzero(activities.call == NONE)),
            "activities in no range": int(np.count_nonzero(activities.range == NONE)),
            "memory events in no range": int(np.count_nonzero(memory.range == NONE)),
            "ids of ranges without a call": total("correlations_without_call"),
            "failed calls": int(np.count_nonzero(calls.return_code > 0)),
            "records of unknown kinds": total("unknown_records"),
            "cut records": total("cut_records"),
            "unfinished work": total("unfinished"),
            "clock_error_ns": max((each["clock_error_ns"] for each in self._counts), default=NONE),
            "memory_pools": memory_pools(self._device["pools"]),
            "overhead_ns": {OVERHEADS.get(kind, f"kind {kind}"): value for kind, value in kinds.items()},
            "cupti": [process.description.get("cupti") for process in self._capture.processes],
        }


def _untold(row: Column, ranges: Ranges, since_ns: Column) -> Column:
    """The innermost of these ranges and their parents that had begun before `since_ns`."""
    row = row.copy()
    while True:
        is_told = np.flatnonzero((row != NONE) & (np.append(ranges.start_ns, 0)[row] >= since_ns))
        if not len(is_told):
            return row
        row[is_told] = ranges.parent[row[is_told]]


def _appended(table: Threads, more: Threads) -> Threads:
    """Rows of both."""
    if not len(more):
        return table
    return Threads(**{field.name: np.concatenate((table[field.name], more[field.name])) for field in fields(Threads)})


def _level(name: str, source: int) -> int:
    """Torch's operators come through ITT; what a program names itself may be a step, a layer or an operator."""
    return level_of_operator(name) if source == Source.ITT else level_of_annotation(name)


def _distinct(*columns: Column) -> tuple[list[tuple[int, ...]], Column]:
    """The different rows of these columns, and for each row which of them it is."""
    if not len(columns[0]):
        return [], np.zeros(0, np.intp)
    together = np.stack([column.astype(np.int64) for column in columns])
    rows, place = np.unique(together, axis=1, return_inverse=True)
    return [tuple(row) for row in rows.T.tolist()], place.ravel()
