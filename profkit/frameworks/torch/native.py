"""Torch's events through profkit's own callbacks in C++ (recorder/): steps to run enter, TorchEvents leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.capture.schema import Column
from profkit.frameworks.torch.raw_events import TorchEvents, TorchThread, spans_around_calls, stacked_columns

SOURCE_NAME = "record_function"

# The records of recorder/event_log.h.
SPAN = np.dtype(
    [
        ("start_ns", np.int64),
        ("end_ns", np.int64),
        ("sequence", np.int64),
        ("forward_thread", np.uint64),
        ("operands", np.int64),
        ("pool_cpu_ns", np.int64),
        ("operand_words", np.int32),
        ("name", np.int32),
        ("parent", np.int32),
        ("scope", np.int32),
    ]
)
ALLOCATION = np.dtype([("time_ns", np.int64), ("address", np.uint64), ("bytes", np.int64), ("span", np.int64)])


def record_native(
    recorder: Any,
    torch: Any,
    layers: Mapping[str, Any],
    run: Callable[[], None],
    memory: bool = True,
    helpers: Sequence[int] = (),
) -> TorchEvents:
    """Everything that torch does while `run` runs, on all threads; memory of this thread only.

    `helpers` are the CPU clocks of threads that work for this one, which are read around every span.
    """
    with spans_around_calls(torch, layers, recorder.spanned):
        recorder.start(memory, True, tuple(helpers))
        try:
            run()
        finally:
            logs = recorder.stop()
    return read_logs(logs, recorder.names(), threading.get_native_id(), time.perf_counter_ns())


def read_logs(logs: list[dict[str, Any]], names: list[str], recorder_id: int, now_ns: int) -> TorchEvents:
    """One table of all threads' records."""
    spans, allocations, words, threads = [], [], [], []
    first_row = first_word = 0
    for number, log in enumerate(logs):
        records = np.frombuffer(log["spans"], SPAN)
        own: dict[str, Column] = {name: records[name].astype(np.int64) for name in SPAN.names or ()}
        own["thread"] = np.full(len(records), number, np.int64)
        own["parent"] = np.where(own["parent"] >= 0, own["parent"] + first_row, -1)
        own["operands"] = np.where(own["operands"] >= 0, own["operands"] + first_word, -1)
        # Of another thread, in the middle of something.
        own["end_ns"] = np.where(own["end_ns"] == 0, now_ns, own["end_ns"])
        own["start_ns"] = np.where(own["start_ns"] == 0, own["end_ns"], own["start_ns"])  # or of beginning it
        taken = np.frombuffer(log["allocations"], ALLOCATION)
        reported: dict[str, Column] = {name: taken[name].astype(np.int64) for name in ALLOCATION.names or ()}
        reported["span"] = np.where(reported["span"] >= 0, reported["span"] + first_row, -1)
        spans.append(own)
        allocations.append(reported)
        words.append(np.frombuffer(log["words"], np.int64))
        threads.append(TorchThread(log["os_id"], log["torch_id"], log["os_id"] == recorder_id))
        first_row += len(records)
        first_word += len(words[-1])
    found = stacked_columns(allocations, ALLOCATION.names or ())
    order = np.argsort(found["time_ns"], kind="stable")
    return TorchEvents(
        SOURCE_NAME,
        names,
        threads,
        stacked_columns(spans, [*(SPAN.names or ()), "thread"]),
        np.concatenate(words) if words else np.zeros(0, np.int64),
        {name: column[order] for name, column in found.items()},
        sum(log["lost"] for log in logs),
    )
