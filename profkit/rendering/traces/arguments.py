"""What slices say of themselves: tables of a Capture go in; names, categories and arguments of their rows come out.

Arguments are the texts and counts that the schema declares, under the names of torch.profiler where it has one.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property

import numpy as np

from profkit.attribution.kinds import KINDS
from profkit.attribution.titles import titles
from profkit.capture.schema import (
    AGGREGATE,
    EXACT,
    NONE,
    Activities,
    ActivityKind,
    Calls,
    Capture,
    Column,
    ColumnTable,
    Level,
    RangeKind,
    Ranges,
    Source,
    taken,
)
from profkit.rendering.operators import operator_columns
from profkit.rendering.traces.building import Slices, TraceBuilder

PLACED = "placed"
"""In the category of what was not observed one by one: the source knew sums only, and put them one after another."""
_NAMES = {"shapes": "Input Dims", "sequence": "Sequence number", "graph_node": "graph node id", "return_code": "error"}
_TIMES = ("start_ns", "end_ns", "queued_ns")
_ANNOTATIONS = (Level.STEP, Level.LAYER)
_ACTIVITIES = {ActivityKind.KERNEL: "kernel", ActivityKind.COPY: "gpu_memcpy", ActivityKind.SET: "gpu_memset"}
_CALL_RANK = len(Level)  # of equal times a range is around a call


class Described:
    """The rows of a capture's tables as slices."""

    def __init__(self, capture: Capture, builder: TraceBuilder) -> None:
        self._capture = capture
        self._builder = builder

    def ranges(self) -> Slices:
        """Every range, span and mark, in the order of the table."""
        ranges = self._capture.ranges
        kind = ranges.kind
        if ranges.has("level"):  # work of helper threads is on their own tracks
            kind = np.where(ranges.level == Level.POOL, np.uint8(RangeKind.RANGE), kind)
        events = {"place": ranges.thread, "kind": kind, "parent": ranges.parent, "rank": ranges.level}
        events |= {"name": self._range_names(), "category": self._range_categories(), **self._times(ranges)}
        if ranges.has("payload_type") and ranges.payload_type.any():
            events |= {"payload_type": ranges.payload_type, "payload": ranges.payload}
        counts = self._counts(ranges)
        if ranges.has("step"):
            counts["step"] = ranges.step.astype(np.int64)
        if len(self._capture.calls) or len(self._capture.activities) or not ranges.has("source"):
            counts["External id"] = _external(np.arange(len(ranges)))
        return Slices(events, self._range_texts(), counts)

    def calls(self) -> Slices:
        """Every call, with the range that made it."""
        calls = self._capture.calls
        runtime, driver = self._builder.string("cuda_runtime"), self._builder.string("cuda_driver")
        category = np.where(calls.is_driver == 1, driver, runtime).astype(np.int32)
        rank = np.full(len(calls), _CALL_RANK, np.int8)
        events = {"place": calls.thread, "rank": rank, "name": self._named(calls.name), "category": category}
        counts = self._counts(calls) | {"External id": _external(calls.range)}
        if "error" in counts:
            counts["error"] = np.where(counts["error"] > 0, counts["error"], NONE)
        return Slices(events | self._times(calls), counts=counts)

    def activities(self, place: Column, launch: Column) -> Slices:
        """All GPU activities, with the range that launched them."""
        activities, ranges = self._capture.activities, self._capture.ranges
        categories = np.array([self._builder.string(_ACTIVITIES[kind]) for kind in ActivityKind], np.int32)
        events = {"place": place, "launch": launch.astype(np.int32), "category": categories[activities.kind]}
        events |= {"name": self._named(activities.name), **self._times(activities)}
        around = {"operator": self._titles}
        around |= {name: ranges[name] for name in ("layer", "phase") if _is_known(ranges, name)}
        counts = self._counts(activities) | {"External id": _external(activities.range)}
        counts["device"] = activities.device.astype(np.int64)
        return Slices(events, {name: taken(of, activities.range) for name, of in around.items()}, counts)

    # --- Names and times ---

    @cached_property
    def _titles(self) -> Column:
        of_row, names = titles(self._capture, np.ones(len(self._capture.ranges), np.bool_))
        return np.array([*(self._builder.string(name) for name in names), NONE], np.int32)[of_row]

    def _range_names(self) -> Column:
        """Of ranges through a door the name alone, of others `domain:name`, by which readers of the trace know them."""
        ranges = self._capture.ranges
        has_title = (ranges.source == 0) & (ranges.domain != NONE) if ranges.has("domain") else np.zeros(0, np.bool_)
        return self._named(np.where(has_title, self._titles, ranges.name) if has_title.any() else ranges.name)

    def _named(self, names: Column) -> Column:
        is_unnamed = names == NONE
        return np.where(is_unnamed, self._builder.string("(unnamed)"), names) if is_unnamed.any() else names

    def _times(self, table: Ranges | Calls | Activities) -> dict[str, Column]:
        """Where a source has the end before the start, it is at the start: formats know no negative durations."""
        times = {"start_ns": table.start_ns, "end_ns": np.maximum(table.end_ns, table.start_ns)}
        origin_ns = self._capture.origin_ns
        return {name: column - origin_ns for name, column in times.items()} if origin_ns else times

    # --- Categories ---

    def _range_categories(self) -> Column:
        """By door where there is one, else by level."""
        ranges = self._capture.ranges
        if not ranges.has("source"):
            return self._level_categories()
        has_door, by_door = ranges.source != 0, self._door_categories()
        return by_door if has_door.all() else np.where(has_door, by_door, self._level_categories())

    def _door_categories(self) -> Column:
        """The door and, if given, the program's own category: `nvtx`, `nvtx,loading`."""
        ranges, strings = self._capture.ranges, self._capture.strings
        width = len(strings) + 1
        key = ranges.source.astype(np.int64) * width + ranges.category + 1
        is_used = np.zeros(width * 256, np.bool_)
        is_used[key] = True
        place = np.zeros(len(is_used), np.int32)
        for used in np.flatnonzero(is_used).tolist():
            source, category = divmod(used, width)
            door = Source(source).name.lower() if source in set(Source) else f"source {source}"
            place[used] = self._builder.string(f"{door},{strings[category - 1]}" if category else door)
        return place[key]

    def _level_categories(self) -> Column:
        """The level in captures with steps, with whether the times were placed; else what torch.profiler calls it."""
        ranges = self._capture.ranges
        if not len(self._capture.steps):
            words = ["user_annotation" if level in _ANNOTATIONS else "cpu_op" for level in Level]
            return self._numbers([*words, "cpu_op"])[ranges.level]
        words = [level.name.lower() for level in Level]
        placed = [f"{word},{PLACED}" for word in words]
        is_placed = self._is_text(AGGREGATE)[ranges.quality]
        return np.where(
            is_placed, self._numbers([*placed, PLACED])[ranges.level], self._numbers([*words, ""])[ranges.level]
        )

    def _numbers(self, words: list[str]) -> Column:
        return np.array([self._builder.string(word) if word else NONE for word in words], np.int32)

    # --- Arguments ---

    def _range_texts(self) -> dict[str, Column]:
        ranges = self._capture.ranges
        found = self._texts(ranges)
        if "quality" in found:  # the usual one is not worth a line
            found["quality"] = np.where(self._is_text(EXACT)[ranges.quality], NONE, ranges.quality).astype(np.int32)
        if len(self._capture.steps):
            kind, _ = operator_columns(self._capture)
            found["kind"] = self._numbers([*KINDS, ""])[kind]
        if ranges.has("colour") and ranges.colour.any():
            colours, place = np.unique(ranges.colour, return_inverse=True)
            found["colour"] = self._numbers([f"#{c & 0xFFFFFF:06x}" if c else "" for c in colours.tolist()])[place]
        if ranges.has("end_thread"):
            found |= self._remark("ended by", "another thread", ranges.end_thread != ranges.thread)
        return found | self._remark("end", "not recorded", ranges.is_open)

    def _remark(self, name: str, text: str, applies: Column) -> dict[str, Column]:
        return {name: np.where(applies, np.int32(self._builder.string(text)), np.int32(NONE))} if applies.any() else {}

    def _texts(self, table: ColumnTable) -> dict[str, Column]:
        """Columns of texts, but those that are the name or the category of the slice."""
        names = [name for name in table.texts() if name not in ("name", "category")]
        return {_NAMES.get(name, name): table[name] for name in names if _is_known(table, name)}

    def _counts(self, table: ColumnTable) -> dict[str, Column]:
        """Columns of numbers that are neither times nor rows of other tables."""
        types = {item.name: item.metadata["absent"].dtype for item in fields(table)}
        names = [name for name, kind in types.items() if kind == np.int64 and name not in _TIMES]
        return {_NAMES.get(name, name): table[name] for name in names if _is_known(table, name)}

    def _is_text(self, text: str) -> Column:
        """Of each string of the capture, whether it is this one; the last entry is that of NONE."""
        return np.array([*(each == text for each in self._capture.strings), False])


def _is_known(table: ColumnTable, name: str) -> bool:
    return table.has(name) and bool(np.any(table[name] != NONE))


def _external(ranges: Column) -> Column:
    """The id by which ranges, calls and activities of torch.profiler's traces belong together."""
    return np.where(ranges == NONE, NONE, ranges.astype(np.int64) + 1)
