"""Arrows from allocations to their releases: TraceContent and its Capture in, the content with both ends out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, AllocationCall, Capture, Column
from profkit.rendering.traces.content import INSTANT, Arrows, Events, TraceContent


def with_allocation_arrows(content: TraceContent, capture: Capture, event_of_range: Column, most: int) -> TraceContent:
    """Adds an instant for each end of the arrows of the largest allocations.

    Both must be in slices of threads: arrows of Chrome traces bind to those.
    """
    taken = capture.allocations
    pairs = np.flatnonzero((taken.free_time_ns != NONE) & (taken.range != NONE) & (taken.free_range != NONE))
    begins, ends = (event_of_range[column[pairs]] for column in (taken.range, taken.free_range))
    is_lane = np.array([track.thread != NONE for track in content.tracks], np.bool_)
    is_drawn = ~is_lane[content.events.track[begins]] & ~is_lane[content.events.track[ends]] & (begins != ends)
    drawn = np.flatnonzero(is_drawn)
    drawn = np.sort(drawn[np.argsort(-taken.bytes[pairs[drawn]].astype(np.int64), kind="stable")[:most]])
    pairs, begins, ends = pairs[drawn], begins[drawn], ends[drawn]
    words = ["memory", "bytes", "release", "unknown", *(call.name.lower() for call in AllocationCall)]
    memory, size, release, unknown, first_call = range(len(content.strings), len(content.strings) + 5)
    names = np.full(256, unknown, np.int32)
    names[list(AllocationCall)] = np.arange(first_call, first_call + len(AllocationCall))
    ids = np.arange(1, len(pairs) + 1, dtype=np.int32)
    time_ns = np.concatenate((taken.time_ns[pairs], taken.free_time_ns[pairs])) - capture.origin_ns
    order = np.argsort(time_ns, kind="stable")
    row = np.concatenate((begins, ends))[order]
    added = {
        "shape": INSTANT,
        "track": content.events.track[row],
        "depth": content.events.depth[row] + 1,
        "start_ns": time_ns[order],
        "end_ns": time_ns[order],
        "name": np.concatenate((names[taken.call[pairs]], np.full(len(pairs), release, np.int32)))[order],
        "category": memory,
        "flow": np.concatenate((ids, -ids))[order],
        "payload_type": 0,
        "payload": 0,
        "launch": NONE,
    }
    at = _places(content.events, row, time_ns[order])
    labels = content.labels
    content = replace(
        content,
        strings=[*content.strings, *words],
        labels=None if labels is None else np.append(labels, np.full(len(words), NONE, np.int32)),
        events=replace(content.events, flow=np.zeros(len(content.events), np.int32)),
        counts=[*content.counts, (size, np.full(len(content.events), NONE, np.int64))],
    )
    return _with_inserted(content, at, added, {size: np.tile(taken.bytes[pairs].astype(np.int64), 2)[order]})


def _with_inserted(
    content: TraceContent, at: Column, events: Mapping[str, Any], counts: Mapping[int, Any]
) -> TraceContent:
    """The content with further events before these rows; arguments that are not given they have not."""
    flows, places = content.flows, np.sort(at)
    columns = {name: getattr(content.events, name) for name in events}
    return replace(
        content,
        events=Events(**{name: np.insert(old, at, events[name]) for name, old in columns.items() if old is not None}),
        texts=[(name, np.insert(values, at, NONE)) for name, values in content.texts],
        counts=[(name, np.insert(values, at, counts.get(name, NONE))) for name, values in content.counts],
        flows=None if flows is None else Arrows(_moved(flows.start, places), _moved(flows.end, places)),
    )


def _moved(rows: Column, inserted: Column) -> Column:
    """The positions of rows after others were inserted before these places."""
    return (rows + np.searchsorted(inserted, rows, side="right")).astype(np.int32)


def _places(events: Events, row: Column, time_ns: Column) -> Column:
    """Before which event each end belongs: after its slice, and before what began at its time or later."""
    at, track = row + 1, events.track[row]
    for thread in np.unique(track).tolist():
        rows = np.flatnonzero(events.track == thread)
        mine = track == thread
        following = np.searchsorted(events.start_ns[rows], time_ns[mine], side="left")
        bounded = np.append(rows, rows[-1] + 1)[following]
        at[mine] = np.maximum(at[mine], bounded)
    return at
