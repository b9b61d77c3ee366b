"""Which threads a table speaks of: a pid and a thread's name or id in, a choice per thread out."""

from __future__ import annotations

import numpy as np

from profkit.attribution.grouping import thread_titles
from profkit.capture.schema import Capture, Column
from profkit.errors import UsageError, did_you_mean

_NAMED_AT_MOST = 20


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
