"""GPU records of a traced program: columns of the reader in, tables of a Capture on its clock out.

Two passes, since CUPTI promises no order: calls find their ranges first, then kernels, copies and memory their calls.
A call belongs to the range that was announced to CUPTI when it began. Without that, it belongs to the innermost range
on its thread that was open at its time and had begun before the first announcement: a later one would have been
announced, and two clocks cannot decide whether it ended just before the call. Calls without a match are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from profkit import _core
from profkit.capture.cupti_numbers import DIRECTIONS, MEMORY_KINDS, OVERHEADS, name_of_copy, translated
from profkit.capture.importers.range_levels import level_of_annotation, level_of_operator
from profkit.capture.nesting import OpenRanges, climbed, time_order
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
    taken,
)
from profkit.capture.trace_tables import LARGEST, launches_of

LATEST_NS = np.iinfo(np.int64).max
Columns = Mapping[str, Column]
_MADE, _DESTROYED, _TRIMMED = 1, 2, 3  # as CUPTI numbers what happens to a memory pool


def with_device(capture: Capture, device: Mapping[str, Columns], counts: Sequence[Mapping[str, int]]) -> Capture:
    """The capture with its GPU records; unchanged without any. `counts` are those of each process."""
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
        """With the level of each, by its name."""
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
        announced = raw["token_range"][order]
        # Spans have no children: what is launched while one is open belongs to the range around it.
        nearest = np.append(np.where(is_range, np.arange(len(ranges), dtype=np.int32), ranges.parent), NONE)
        announced = nearest[announced]
        seen = OpenRanges(ranges).at(thread, start_ns)
        # A token whose range is not in the file says that some range was open.
        since_ns = np.where(
            raw["has_token"][order], LATEST_NS, self._first_announced(announced, process, ranges)[process]
        )
        starts_ns = np.append(ranges.start_ns, 0)
        earlier = climbed(seen, ranges.parent, lambda row: starts_ns[row] >= since_ns)
        calls = Calls(
            thread=thread,
            start_ns=start_ns,
            end_ns=raw["end_ns"][order],
            name=raw["name"][order],
            process=process,
            correlation=raw["correlation"][order],
            range=np.where(announced == NONE, earlier, announced),
            return_code=raw["return_code"][order],
            is_driver=raw["is_driver"][order],
        )
        found_by = {
            "calls in the range announced to CUPTI": int(np.count_nonzero(announced != NONE)),
            "calls in the range open at their time": int(np.count_nonzero((announced == NONE) & (earlier != NONE))),
            "calls in no range": int(np.count_nonzero((announced == NONE) & (earlier == NONE))),
            "calls of which both were known and differ": int(
                np.count_nonzero((announced != NONE) & (seen != NONE) & (announced != seen))
            ),
        }
        return calls, found_by

    def _first_announced(self, announced: Column, process: Column, ranges: Ranges) -> Column:
        """Start of the first announced range, by process; never if CUPTI dropped records: tokens may be missing."""
        since = np.full(len(self._capture.processes), LATEST_NS)
        is_announced = announced != NONE
        np.minimum.at(since, process[is_announced], ranges.start_ns[announced[is_announced]])
        dropped = [each["dropped_by_cupti"] + each["dropped_too_slow"] for each in self._counts]
        since[np.flatnonzero(dropped)] = LATEST_NS
        return since

    def _threads(self) -> tuple[Threads, Column]:
        """The threads with those that only made calls, and the thread of each call.

        The system reuses thread ids: of several threads with one id, the last that had begun counts.
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
        made["range"] = taken(calls.range, made["call"])
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
        made["range"], made["thread"] = (taken(column, call) for column in (calls.range, calls.thread))
        return MemoryEvents(**made)

    def _kernel_names(self, texts: Column) -> Column:
        known, place = _distinct(texts)
        written = ["" if text == NONE else self._strings[text] for (text,) in known]
        said = _core.demangle_names(written)
        numbers = [NONE if text == NONE else self._number(name) for (text,), name in zip(known, said)]
        made: Column = np.array(numbers, np.int32)[place]
        return made

    def _devices(self) -> tuple[Device, ...]:
        """Each device once, though every process reports it."""
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
            "memory_pools": _memory_pools(self._device["pools"]),
            "overhead_ns": {OVERHEADS.get(kind, f"kind {kind}"): value for kind, value in kinds.items()},
            "cupti": [process.description.get("cupti") for process in self._capture.processes],
        }


def _appended(table: Threads, more: Threads) -> Threads:
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


def _memory_pools(pools: Columns) -> list[dict[str, Any]]:
    """For each pool of each process the most it reserved of the device's memory, how much of that allocations used at
    most, and what happened to it."""
    if not len(pools["address"]):
        return []
    keys = np.stack([pools[name].astype(np.uint64) for name in ("process", "device", "address")])
    _, pool_of, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    rows_of_each = np.split(np.argsort(pool_of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    return [_pool_summary(pools, rows) for rows in rows_of_each]


def _pool_summary(pools: Columns, rows: Column) -> dict[str, Any]:
    operations = pools["operation"][rows]
    last = rows[np.argsort(pools["time_ns"][rows], kind="stable")[-1]]
    return {
        "process": int(pools["process"][last]),
        "device": int(pools["device"][last]),
        "address": int(pools["address"][last]),
        "reserved_peak_bytes": int(pools["reserved_bytes"][rows].max()),
        "used_peak_bytes": int(pools["used_bytes"][rows].max()),
        "reserved_end_bytes": 0 if pools["operation"][last] == _DESTROYED else int(pools["reserved_bytes"][last]),
        "made": int(np.count_nonzero(operations == _MADE)),
        "destroyed": int(np.count_nonzero(operations == _DESTROYED)),
        "trimmed": int(np.count_nonzero(operations == _TRIMMED)),
    }
