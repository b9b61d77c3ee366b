"""A trace that grows: processes, tracks and columns of slices go in, TraceContent with all of them comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from profkit import _core
from profkit.capture.schema import NONE, Column, RangeKind
from profkit.rendering.traces.content import INSTANT, SLICE, Events, TraceContent, TraceProcess, Track

# Ids that the kernel never gives: its largest process and thread id is 2**22.
FIRST_FREE_ID = 1 << 22
_LAST_ID = (1 << 31) - 1  # of the trace formats
RANKS = 1000  # between two threads, for the lanes of the first
_LANE_IDS = 100  # kept free behind the id of a stream: some viewers show threads in the order of their ids
Columns = Mapping[str, Column]


@dataclass(frozen=True)
class Slices:
    """Events to be, with their arguments: texts (numbers of the builder's strings) and counts, NONE where not known.

    `events` are columns of Events: start_ns, end_ns, name, category, and payloads or launches where there are any.
    Beside them `place` says on which of the tracks, which are given with the slices, each is. Of rows with equal
    times the one of the lower `rank` encloses the others. `kind` (RangeKind) and `parent` are as in Ranges.
    """

    events: Columns
    texts: Columns = field(default_factory=dict)
    counts: Columns = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.events["start_ns"])

    def taken(self, order: Column) -> Slices:
        groups = (self.events, self.texts, self.counts)
        return Slices(*({name: column[order] for name, column in group.items()} for group in groups))


def joined(parts: Sequence[Slices]) -> Slices:
    """Rows of all, one after another; a column that some parts have is filled up for the others."""
    if len(parts) == 1:
        return parts[0]

    def group(of: Callable[[Slices], Columns]) -> dict[str, Column]:
        types = {name: column.dtype for part in parts for name, column in of(part).items()}
        return {name: np.concatenate([filled(part, of(part), name, types[name]) for part in parts]) for name in types}

    def filled(part: Slices, columns: Columns, name: str, kind: Any) -> Column:
        return columns[name] if name in columns else np.full(len(part), 0 if kind.kind == "u" else NONE, kind)

    return Slices(group(lambda part: part.events), group(lambda part: part.texts), group(lambda part: part.counts))


class TraceBuilder:
    """Starts with texts whose numbers stay as they are."""

    def __init__(self, strings: Sequence[str]) -> None:
        self.processes: list[TraceProcess] = []
        self.tracks: list[Track] = []
        self._strings = list(strings)
        self._numbers: dict[str, int] = {}
        self._free = count(FIRST_FREE_ID)
        self._ranks = count(RANKS, RANKS)
        self._pids: set[int] = set()
        self._tids: set[int] = set()
        self._parts: list[Slices] = []
        self._rows = 0

    def string(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self._strings))
        if number == len(self._strings):
            self._strings.append(text)
        return number

    def add_process(self, pid: int, name: str, command: tuple[str, ...] = (), is_gpu: bool = False) -> int:
        """The row of a new process, with this id if it is free."""
        self.processes.append(TraceProcess(self._unused(pid, self._pids), name, command, is_gpu))
        return len(self.processes) - 1

    def add_track(self, process: int, tid: int, name: str, queue: int = NONE) -> int:
        """The row of a new track below those that are there."""
        self.tracks.append(Track(process, self._unused(tid, self._tids), name, next(self._ranks), queue=queue))
        if queue != NONE:
            self._free = count(next(self._free) + _LANE_IDS)
        return len(self.tracks) - 1

    def add_track_above(self, process: int, name: str) -> int:
        """The row of a new track above all others of its process."""
        ranks = [track.rank for track in self.tracks if track.process == process]
        self.tracks.append(Track(process, self._unused(0, self._tids), name, min(ranks, default=0) - 1))
        return len(self.tracks) - 1

    def add_lane(self, beside: int, name: str, number: int = 1, tid: int = 0) -> int:
        """The row of a new track beside another one, the given number of places below it."""
        track = self.tracks[beside]
        # A lane of a lane is beside the thread of both: formats know one level only.
        thread = track.thread if track.thread != NONE else beside
        made = Track(track.process, self._unused(tid, self._tids), name, track.rank + number, thread, track.queue)
        self.tracks.append(made)
        return len(self.tracks) - 1

    def add(self, slices: Slices, tracks: Sequence[int], nests: bool = True, is_ordered: bool = False) -> Column:
        """Put slices on their tracks and give the row of each event.

        A slice that overlaps others of its track moves to a lane beside it, with the slices inside if they do not nest.
        Rows that are ordered are grouped by place, in order of their start; others are sorted.
        """
        if not len(slices) and self._parts:
            return np.zeros(0, np.int64)
        order = None if is_ordered else _order(slices.events)
        slices = slices if order is None else slices.taken(order)
        events: dict[str, Any] = dict(slices.events)
        rows = len(slices)
        place, parent, kind, _ = (events.pop(name, None) for name in ("place", "parent", "kind", "rank"))
        if parent is None:
            parent = np.full(rows, NONE, np.int32)
        if kind is None or not nests:
            kind = np.full(rows, RangeKind.RANGE if nests else RangeKind.SPAN, np.uint8)
        lane, depth, lanes = _core.lay_out(kind, place, events["start_ns"], events["end_ns"], parent, len(tracks))
        if not nests:  # the first lane of spans is the track itself
            lane, lanes = lane - 1, np.maximum(lanes - 1, 0)
        track = np.array(tracks, np.int32)[place]
        if lanes.any():
            begins = self._add_lanes(tracks, lanes.tolist())
            track = np.where(lane == 0, track, begins[place] + lane - 1).astype(np.int32)
        shape = np.where(kind == RangeKind.MARK, INSTANT, SLICE).astype(np.uint8)
        made = {**events, "shape": shape, "track": track, "depth": depth}
        self._parts.append(replace(slices, events=made))
        row = np.arange(self._rows, self._rows + rows)
        if order is not None:
            row[order] = row.copy()
        self._rows += rows
        return row

    def finished(self, labels: Mapping[int, int] | None = None, **fields: Any) -> TraceContent:
        """Everything, with the further fields of a TraceContent.

        `labels` are numbers of strings, each with its label's.
        """
        slices = joined(self._parts)
        texts = [(self.string(name), values) for name, values in slices.texts.items()]
        counts = [(self.string(name), values) for name, values in slices.counts.items()]
        payload, payload_bytes = self.string("payload"), self.string("payload_bytes")
        label_of = np.full(len(self._strings), NONE, np.int32)
        if labels:
            label_of[list(labels)] = list(labels.values())
        return TraceContent(
            strings=self._strings,
            labels=label_of if labels else None,
            processes=tuple(self.processes),
            tracks=tuple(self.tracks),
            events=Events(**slices.events),
            texts=texts,
            counts=counts,
            payload_name=payload,
            payload_bytes_name=payload_bytes,
            **fields,
        )

    def _add_lanes(self, tracks: Sequence[int], lanes: Sequence[int]) -> Column:
        """Gives where the lanes of each track begin."""
        begins = []
        for row, number in zip(tracks, lanes):
            begins.append(len(self.tracks))
            beside = self.tracks[row]
            for lane in range(1, number + 1):
                tid = beside.tid + lane if beside.queue != NONE else 0
                self.add_lane(row, f"{beside.name} (overlapping {lane})", lane, tid)
        return np.array(begins, np.int64)

    def _unused(self, wanted: int, taken: set[int]) -> int:
        """The system's id; another one if it has none, or gave it twice: viewers would merge the two."""
        is_usable = 0 < wanted < _LAST_ID and wanted not in taken
        chosen = wanted if is_usable else next(number for number in self._free if number not in taken)
        taken.add(chosen)
        return chosen


def _order(events: Columns) -> Column:
    """By place, then by start, what encloses first."""
    keys = (-events["end_ns"], events["start_ns"], events["place"])
    return np.lexsort((events["rank"], *keys) if "rank" in events else keys)
