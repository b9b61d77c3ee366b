"""Thread time: how long each thread was seen, and which threads a table speaks of. A capture in, nanoseconds out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.capture.schema import Capture, Column, RangeKind


@dataclass(frozen=True)
class ThreadTime:
    """Per thread of the capture."""

    wall_ns: Column  # int64, from its first to its last known moment
    is_counted: Column  # bool, part of the table's wall_ns


def thread_time(capture: Capture, is_chosen: Column) -> ThreadTime:
    """Extents of all threads; counted are the chosen ones that have ranges.

    A pool's idle threads have none and would only add time that nobody asks for. When no chosen thread has ranges,
    the first thread of every process is counted, which spans the process (or what was chosen): all of it is remainder.
    """
    ranges, threads = capture.ranges, capture.threads
    in_tree = ranges.kind == np.uint8(RangeKind.RANGE)
    rows = np.flatnonzero(in_tree)
    start, end = threads.start_ns.astype(np.int64), threads.end_ns.astype(np.int64)
    if len(rows):
        # Ranges left open end with their process, which may be later than their thread's last event. Rows are grouped
        # by thread, so one maximum per stretch suffices.
        owner = ranges.thread[rows]
        first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        np.minimum.at(start, owner[first], np.minimum.reduceat(ranges.start_ns[rows], first))
        np.maximum.at(end, owner[first], np.maximum.reduceat(ranges.end_ns[rows], first))
    has_ranges = np.zeros(len(threads), np.bool_)
    has_ranges[ranges.thread[rows]] = True
    is_counted = has_ranges & is_chosen
    if not is_counted.any():
        is_first = (threads.index == 0) & is_chosen
        is_counted = is_first if is_first.any() else is_chosen
    return ThreadTime(np.maximum(end - start, 0), is_counted)
