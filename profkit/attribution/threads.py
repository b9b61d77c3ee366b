"""The clock of threads: which threads are meant, and how long each was seen. A capture in, columns per thread out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.titles import thread_titles
from profkit.attribution.tree import is_in_tree
from profkit.capture.schema import Capture, Column
from profkit.errors import UsageError, did_you_mean

_NAMED_AT_MOST = 20


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
    in_tree = is_in_tree(capture)
    rows = slice(None) if in_tree.all() else np.flatnonzero(in_tree)
    start, end = threads.start_ns.astype(np.int64), threads.end_ns.astype(np.int64)
    has_ranges = np.zeros(len(threads), np.bool_)
    if in_tree.any():
        # Ranges left open end with their process, which may be later than their thread's last event. Rows are grouped
        # by thread, so one maximum per stretch suffices.
        owner = ranges.thread[rows]
        first = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        np.minimum.at(start, owner[first], np.minimum.reduceat(ranges.start_ns[rows], first))
        np.maximum.at(end, owner[first], np.maximum.reduceat(ranges.end_ns[rows], first))
        has_ranges[owner[first]] = True
    is_counted = has_ranges & is_chosen
    if not is_counted.any():
        is_first = (threads.index == 0) & is_chosen
        is_counted = is_first if is_first.any() else is_chosen
    return ThreadTime(np.maximum(end - start, 0), is_counted)


def choose_threads(capture: Capture, process: int | None = None, thread: str | None = None) -> Column:
    """Which threads are meant; a filter that names none is a UsageError with what there is."""
    is_chosen = np.ones(len(capture.threads), np.bool_)
    if process is not None:
        pids = np.array([each.pid for each in capture.processes], np.int64)
        if process not in pids:
            known = ", ".join(map(str, sorted(set(pids.tolist())))) or "none"
            raise UsageError(f"the capture has no process {process}; processes: {known}")
        is_chosen &= pids[capture.threads.process] == process
    if thread is not None:
        is_named = _is_thread_named(capture, thread)
        if not (is_named & is_chosen).any():
            raise UsageError(_no_such_thread(capture, thread, is_chosen))
        is_chosen &= is_named
    return is_chosen


def _is_thread_named(capture: Capture, thread: str) -> Column:
    threads = capture.threads
    known = zip(threads.name.tolist(), threads.os_thread_id.tolist(), thread_titles(capture))
    return np.array(
        [thread in (capture.strings[name] if name >= 0 else "", str(number), title) for name, number, title in known],
        np.bool_,
    )


def _no_such_thread(capture: Capture, thread: str, is_chosen: Column) -> str:
    names = [title for title, chosen in zip(thread_titles(capture), is_chosen.tolist()) if chosen]
    hint = did_you_mean(thread, names)
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return f"the capture has no thread {thread!r}; {hint}threads: {', '.join(names[:_NAMED_AT_MOST])}{more}"
