"""A trace that grows: rows of events for new or existing tracks go in, TraceContent with all of them comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from profkit import _core
from profkit.capture.schema import NONE, Column, RangeKind
from profkit.rendering.traces.content import (
    FIRST_FREE_ID,
    SLICE,
    Events,
    TraceContent,
    TraceProcess,
    Track,
    unused_id,
)

_RANKS = 1000  # between two tracks, for the lanes of the first
_LANE_IDS = 100  # kept free behind the id of a stream: some viewers show threads in the order of their ids


@dataclass(frozen=True)
class Slices:
    """Slices to be added, in any order; `place` says which of the tracks that are given with them each belongs to."""

    place: Column
    start_ns: Column
    end_ns: Column
    name: Column  # numbers of the builder's strings
    category: Column
    rank: Column | None = None  # of equal times: lower ones enclose
    launch: Column | None = None
    texts: Mapping[str, Column] = field(default_factory=dict)
    counts: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.place)


class TraceBuilder:
    """Starts from a content, which stays as it is."""

    def __init__(self, content: TraceContent) -> None:
        self._content = content
        self.processes = list(content.processes)
        self.tracks = [replace(track, rank=track.rank * _RANKS) for track in content.tracks]
        self._ranks = count(max((track.rank for track in self.tracks), default=-_RANKS) + _RANKS, _RANKS)
        self._strings = list(content.strings)
        self._numbers: dict[str, int] = {}
        self._free = count(FIRST_FREE_ID)
        self._pids = {process.pid for process in content.processes}
        self._tids = {track.tid for track in content.tracks}
        self._parts: list[Events] = [content.events]
        self._texts = {content.strings[name]: [values] for name, values in content.texts}
        self._counts = {content.strings[name]: [values] for name, values in content.counts}
        self._rows = len(content.events)

    def string(self, text: str) -> int:
        """The number of a text."""
        number = self._numbers.setdefault(text, len(self._strings))
        if number == len(self._strings):
            self._strings.append(text)
        return number

    def add_process(self, pid: int, name: str, is_gpu: bool = False) -> int:
        """The row of a new process, with this id if it is free."""
        self.processes.append(TraceProcess(unused_id(pid, self._pids, self._free), name, (), is_gpu))
        return len(self.processes) - 1

    def add_track(self, process: int, tid: int, name: str, thread: int = NONE, queue: int = NONE) -> int:
        """The row of a new track; beside a thread if one is given."""
        rank = next(self._ranks) if thread == NONE else self.tracks[thread].rank + 1
        self.tracks.append(Track(process, unused_id(tid, self._tids, self._free), name, rank, thread, queue))
        if queue != NONE:
            self._free = count(next(self._free) + _LANE_IDS)
        return len(self.tracks) - 1

    def add(self, slices: Slices, tracks: Sequence[int], nests: bool = True) -> Column:
        """Put slices on their tracks and give the row of each event.

        What overlaps others of its track stands in a lane beside it; if they do not nest, what lies within as well.
        """
        rank = np.zeros(len(slices), np.int32) if slices.rank is None else slices.rank
        order = np.lexsort((rank, -slices.end_ns, slices.start_ns, slices.place))
        place = slices.place[order].astype(np.int32)
        start_ns, end_ns = slices.start_ns[order], slices.end_ns[order]
        kinds = np.full(len(order), RangeKind.RANGE if nests else RangeKind.SPAN, np.uint8)
        parent = np.full(len(order), NONE, np.int32)
        lane, depth, lanes = _core.lay_out(kinds, place, start_ns, end_ns, parent, len(tracks))
        if not nests:  # the first lane of spans is the track itself
            lane, lanes = lane - 1, np.maximum(lanes - 1, 0)
        first_lane = self._add_lanes(tracks, lanes.tolist())
        track = np.where(lane == 0, np.array(tracks, np.int64)[place], first_lane[place] + lane - 1)
        made = Events(
            shape=np.full(len(order), SLICE, np.uint8),
            track=track.astype(np.int32),
            depth=depth,
            start_ns=start_ns,
            end_ns=end_ns,
            name=slices.name[order].astype(np.int32),
            category=slices.category[order].astype(np.int32),
            launch=None if slices.launch is None else slices.launch[order].astype(np.int32),
        )
        return self._append(made, slices, order)

    def finished(self, labels: Mapping[int, int], **changes: object) -> TraceContent:
        """Everything, with further fields of a TraceContent. `labels` are numbers of strings, each with its label's."""
        texts = [(self.string(name), _column(parts, np.int32)) for name, parts in self._texts.items()]
        counts = [(self.string(name), _column(parts, np.int64)) for name, parts in self._counts.items()]
        label_of = np.full(len(self._strings), NONE, np.int32)
        label_of[list(labels)] = list(labels.values())
        return replace(
            self._content,
            strings=self._strings,
            labels=label_of,
            processes=tuple(self.processes),
            tracks=tuple(self.tracks),
            events=_joined(self._parts),
            texts=texts,
            counts=counts,
            **changes,  # type: ignore[arg-type]
        )

    def _add_lanes(self, tracks: Sequence[int], lanes: Sequence[int]) -> Column:
        """Gives where the lanes of each track begin."""
        begins = []
        for row, number in zip(tracks, lanes):
            begins.append(len(self.tracks))
            beside = self.tracks[row]
            for lane in range(1, number + 1):
                tid = unused_id(beside.tid + lane if beside.queue != NONE else 0, self._tids, self._free)
                name = f"{beside.name} (overlapping {lane})"
                # A lane of a lane stands beside the thread of both: formats know one level only.
                thread = beside.thread if beside.thread != NONE else row
                self.tracks.append(Track(beside.process, tid, name, beside.rank + lane, thread, beside.queue))
        return np.array(begins, np.int64)

    def _append(self, made: Events, slices: Slices, order: Column) -> Column:
        for known, given, kind in ((self._texts, slices.texts, np.int32), (self._counts, slices.counts, np.int64)):
            for name in known.keys() | given.keys():
                parts = known.setdefault(name, [np.full(self._rows, NONE, kind)])
                parts.append(given[name][order] if name in given else np.full(len(order), NONE, kind))
        self._parts.append(made)
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(self._rows, self._rows + len(order))
        self._rows += len(order)
        return row


def _column(parts: Sequence[Column], kind: type) -> Column:
    return np.concatenate(parts).astype(kind, copy=False)


def _joined(parts: Sequence[Events]) -> Events:
    """All events; a column that some parts have is filled up for the others."""

    def optional(name: str, missing: int, kind: type) -> Column | None:
        columns = [getattr(part, name) for part in parts]
        if all(column is None for column in columns):
            return None
        return np.concatenate(
            [np.full(len(part), missing, kind) if column is None else column for part, column in zip(parts, columns)]
        )

    always = ("shape", "track", "depth", "start_ns", "end_ns", "name", "category")
    return Events(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in always},
        payload_type=optional("payload_type", 0, np.uint8),
        payload=optional("payload", 0, np.uint64),
        flow=optional("flow", 0, np.int32),
        launch=optional("launch", NONE, np.int32),
    )
