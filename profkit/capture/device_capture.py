"""What a GPU did in a traced program: columns of the reader in, a DeviceTrace on the capture's clock out.

Two passes, since CUPTI promises no order: calls find their ranges first, then kernels, copies and memory their calls.
A call belongs to the range that CUPTI was told about when it began. Without that, it belongs to the innermost range on
its thread that was open at its time and had begun before CUPTI was told of any: a later one would have been told, and
two clocks cannot say whether it ended just before the call. What finds nothing stays without a range, and is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit import _core
from profkit.capture.cupti_numbers import DIRECTIONS, MEMORY_KINDS, OVERHEADS, name_of_copy, translated
from profkit.capture.cupti_pools import memory_pools
from profkit.capture.device_trace import NONE, ActivityKind, Column, CopyDirection, DeviceTrace, MemoryKind, table_of
from profkit.capture.nesting import OpenRanges, time_order
from profkit.capture.range_levels import level_of_annotation, level_of_operator
from profkit.capture.tables import Process, RangeKind, Ranges, Source, Threads
from profkit.capture.trace_tables import Strings, launches_of

LATEST_NS = np.iinfo(np.int64).max
Columns = Mapping[str, Column]
Device = Mapping[str, Columns]


def device_trace_of(
    path: str,
    strings: Sequence[str],
    processes: Sequence[Process],
    threads: Threads,
    ranges: Ranges,
    device: Device,
    counts: Sequence[Mapping[str, int]],
) -> DeviceTrace | None:
    """The trace; None when nothing of a GPU was recorded. `counts` are those of each process."""
    if not any(each["entries"] for each in counts):
        return None
    return _Maker(path, strings, processes, threads, ranges, device, counts).trace()


class _Maker:
    def __init__(
        self,
        path: str,
        strings: Sequence[str],
        processes: Sequence[Process],
        threads: Threads,
        ranges: Ranges,
        device: Device,
        counts: Sequence[Mapping[str, int]],
    ) -> None:
        self._path = path
        self._texts = list(strings)
        self._strings = Strings()
        self._processes = processes
        self._capture_threads = threads
        self._capture_ranges = ranges
        self._device = device
        self._counts = counts
        self._threads = [
            {"process": int(process), "id": int(number), "name": strings[name]}
            for process, number, name in zip(threads.process, threads.os_thread_id, threads.name)
        ]

    def trace(self) -> DeviceTrace:
        ranges, row_of = self._ranges()
        calls, found_by = self._calls(ranges, row_of)
        activities = self._activities(calls)
        memory = self._memory(calls)
        facts = self._facts(found_by, calls, activities, memory)
        begins = [process.start_ns for process in self._processes]
        ends = [process.end_ns for process in self._processes]
        if len(activities["end_ns"]):
            begins.append(int(activities["start_ns"].min()))
            ends.append(int(activities["end_ns"].max()))
        return DeviceTrace(
            source="cupti",
            path=self._path,
            strings=self._strings.all(),
            ranges=ranges,
            calls=calls,
            activities=activities,
            memory=memory,
            threads=tuple(self._threads),
            processes=tuple({"pid": process.pid, "name": " ".join(process.command)} for process in self._processes),
            devices=self._devices(),
            start_ns=min(begins, default=0),
            end_ns=max(ends, default=0),
            dropped=sum(each["dropped_by_cupti"] + each["dropped_too_slow"] for each in self._counts),
            warnings=(),
            facts=facts,
        )

    def _ranges(self) -> tuple[dict[str, Column], Column]:
        """The tree of ranges in order of time; for each row of the capture its row there, for spans the parent's."""
        table = self._capture_ranges
        is_range = table.kind == RangeKind.RANGE
        rows = np.flatnonzero(is_range)
        rows = rows[time_order(table.start_ns[rows], table.end_ns[rows])]
        row_of = np.full(len(table) + 1, NONE, np.int32)  # the last one: NONE's own
        row_of[rows] = np.arange(len(rows), dtype=np.int32)
        others = np.flatnonzero(~is_range)
        row_of[others] = row_of[table.parent[others]]
        titles, kind_of = _distinct(table.domain[rows], table.name[rows], table.source[rows])
        names = [self._title(domain, name) for domain, name, _ in titles]
        levels = [_level(name, source) for name, (_, _, source) in zip(names, titles)]
        numbers = np.array([self._strings.number(name) for name in names], np.int32)
        made = {
            "level": np.array(levels, np.int8)[kind_of],
            "thread": table.thread[rows],
            "start_ns": table.start_ns[rows],
            "end_ns": table.end_ns[rows],
            "name": numbers[kind_of],
            "parent": row_of[table.parent[rows]],
        }
        return table_of("ranges", made, len(rows)), row_of

    def _title(self, domain: int, name: int) -> str:
        return self._texts[name] if domain == NONE else f"{self._texts[domain]}:{self._texts[name]}"

    def _calls(self, ranges: Columns, row_of: Column) -> tuple[dict[str, Column], dict[str, int]]:
        raw = self._device["calls"]
        order = time_order(raw["start_ns"], raw["end_ns"])
        thread = self._threads_of(raw)[order]
        start_ns = raw["start_ns"][order]
        process = raw["process"][order]
        told = row_of[raw["token_range"][order]]
        seen = OpenRanges(ranges["thread"], ranges["start_ns"], ranges["end_ns"], ranges["parent"]).at(thread, start_ns)
        # A token whose range is not in the file says that some range was open.
        since_ns = np.where(raw["has_token"][order], LATEST_NS, self._told_since(told, process, ranges)[process])
        untold = _untold(seen, ranges, since_ns)
        made = {
            "thread": thread,
            "start_ns": start_ns,
            "end_ns": raw["end_ns"][order],
            "name": self._numbers(raw["name"][order]),
            "process": process,
            "correlation": raw["correlation"][order],
            "range": np.where(told == NONE, untold, told),
            "return_code": raw["return_code"][order],
            "is_driver": raw["is_driver"][order],
        }
        found_by = {
            "calls in the range that CUPTI was told": int(np.count_nonzero(told != NONE)),
            "calls in the range open at their time": int(np.count_nonzero((told == NONE) & (untold != NONE))),
            "calls in no range": int(np.count_nonzero((told == NONE) & (untold == NONE))),
            "calls of which both were known and differ": int(
                np.count_nonzero((told != NONE) & (seen != NONE) & (told != seen))
            ),
        }
        return table_of("calls", made, len(order)), found_by

    def _told_since(self, told: Column, process: Column, ranges: Columns) -> Column:
        """When CUPTI was first told of a range, by process; never, where it dropped records: a token may be missing."""
        since = np.full(len(self._processes), LATEST_NS)
        is_told = told != NONE
        np.minimum.at(since, process[is_told], ranges["start_ns"][told[is_told]])
        dropped = [each["dropped_by_cupti"] + each["dropped_too_slow"] for each in self._counts]
        since[np.flatnonzero(dropped)] = LATEST_NS
        return since

    def _threads_of(self, calls: Columns) -> Column:
        """Rows of threads. The system uses a number again: of several threads the last that had begun is meant."""
        table = self._capture_threads
        known: dict[tuple[int, int], list[int]] = {}
        for row, key in enumerate(zip(table.process.tolist(), table.os_thread_id.tolist())):
            known.setdefault(key, []).append(row)
        keys, key_of = _distinct(calls["process"], calls["os_thread_id"])
        found = np.full(len(key_of), NONE, np.int32)
        for place, (process, number) in enumerate(keys):
            rows = known.get((process, number))
            asked = np.flatnonzero(key_of == place)
            if rows is None:
                found[asked] = len(self._threads)
                self._threads.append({"process": process, "id": number, "name": ""})
                continue
            begins = np.array([table.start_ns[row] for row in rows])
            order = np.argsort(begins, kind="stable")
            latest = np.searchsorted(begins[order], calls["start_ns"][asked], "right") - 1
            found[asked] = np.array(rows, np.int32)[order[np.maximum(latest, 0)]]
        return found

    def _activities(self, calls: Columns) -> dict[str, Column]:
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
        made["range"] = np.append(calls["range"], NONE)[made["call"]]
        return table_of("activities", made, len(order))

    def _activity_names(self, made: Columns, is_kernel: Column) -> Column:
        names = self._kernel_names(np.where(is_kernel, made["name"], NONE))
        rest = np.flatnonzero(~is_kernel)
        kinds, kind_of = _distinct(*(made[name][rest] for name in ("kind", "direction", "source_kind", "target_kind")))
        texts = np.array([self._strings.number(name_of_copy(*kind)) for kind in kinds], np.int32)
        names[rest] = texts[kind_of]
        return names

    def _memory(self, calls: Columns) -> dict[str, Column]:
        raw = self._device["memory"]
        order = np.argsort(raw["time_ns"], kind="stable")
        made = {name: column[order] for name, column in raw.items()}
        call = launches_of(made, calls)
        made.pop("correlation")
        made["kind"] = translated(made["kind"], MEMORY_KINDS, MemoryKind.OTHER)
        made["pool"] = made["pool"].astype(np.int64)
        made["range"] = np.append(calls["range"], NONE)[call]
        return table_of("memory", made, len(order))

    def _kernel_names(self, texts: Column) -> Column:
        """CUPTI has the names as the compiler made them."""
        known, place = _distinct(texts)
        written = ["" if text == NONE else self._texts[text] for (text,) in known]
        said = _core.demangle_names(written)
        numbers = [NONE if text == NONE else self._strings.number(name) for (text,), name in zip(known, said)]
        made: Column = np.array(numbers, np.int32)[place]
        return made

    def _numbers(self, texts: Column) -> Column:
        """Numbers of the trace's strings for numbers of the capture's."""
        known, place = _distinct(texts)
        numbers = [NONE if text == NONE else self._strings.number(self._texts[text]) for (text,) in known]
        made: Column = np.array(numbers, np.int32)[place]
        return made

    def _devices(self) -> tuple[Mapping[str, Any], ...]:
        """Each device once, though every process tells of it."""
        found: dict[int, dict[str, Any]] = {}
        raw = self._device["devices"]
        for row in range(len(raw["id"])):
            found.setdefault(
                int(raw["id"][row]),
                {
                    "id": int(raw["id"][row]),
                    "name": self._texts[raw["name"][row]],
                    "compute_major": int(raw["capability_major"][row]),
                    "compute_minor": int(raw["capability_minor"][row]),
                    "multiprocessors": int(raw["multiprocessors"][row]),
                    "warps_per_multiprocessor": int(raw["warps_per_multiprocessor"][row]),
                    "shared_bytes_per_multiprocessor": int(raw["shared_bytes_per_multiprocessor"][row]),
                    "core_clock_khz": int(raw["core_clock_khz"][row]),
                    "l2_bytes": int(raw["l2_bytes"][row]),
                    "memory_bytes": int(raw["memory_bytes"][row]),
                    "memory_bandwidth_kb_s": int(raw["memory_bandwidth"][row]),
                },
            )
        return tuple(found[number] for number in sorted(found))

    def _facts(
        self, found_by: Mapping[str, int], calls: Columns, activities: Columns, memory: Columns
    ) -> dict[str, Any]:
        def total(name: str) -> int:
            return sum(each[name] for each in self._counts)

        overhead = self._device["overhead"]
        spent = overhead["end_ns"] - overhead["start_ns"]
        kinds = {int(kind): int(spent[overhead["kind"] == kind].sum()) for kind in np.unique(overhead["kind"])}
        return {
            **found_by,
            "activities without a call": int(np.count_nonzero(activities["call"] == NONE)),
            "activities in no range": int(np.count_nonzero(activities["range"] == NONE)),
            "memory events in no range": int(np.count_nonzero(memory["range"] == NONE)),
            "ids of ranges without a call": total("correlations_without_call"),
            "failed calls": int(np.count_nonzero(calls["return_code"] > 0)),
            "records of unknown kinds": total("unknown_records"),
            "cut records": total("cut_records"),
            "unfinished work": total("unfinished"),
            "clock_error_ns": max((each["clock_error_ns"] for each in self._counts), default=NONE),
            "memory_pools": memory_pools(self._device["pools"]),
            "overhead_ns": {OVERHEADS.get(kind, f"kind {kind}"): value for kind, value in kinds.items()},
            "cupti": [process.description.get("cupti") for process in self._processes],
        }


def _untold(row: Column, ranges: Columns, since_ns: Column) -> Column:
    """The innermost of these ranges and their parents that had begun before `since_ns`."""
    row = row.copy()
    while True:
        is_told = np.flatnonzero((row != NONE) & (np.append(ranges["start_ns"], 0)[row] >= since_ns))
        if not len(is_told):
            return row
        row[is_told] = ranges["parent"][row[is_told]]


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
