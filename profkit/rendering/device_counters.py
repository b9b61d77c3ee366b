"""GPU memory over time for traces: the memory table of a DeviceTrace goes in, counters of bounded length come out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.capture.device_trace import HOST_MEMORY, DeviceTrace
from profkit.capture.tables import NONE
from profkit.rendering.trace_counters import Counter, thinned


def device_memory_counters(trace: DeviceTrace, process_rows: Sequence[int], origin_ns: int) -> tuple[Counter, ...]:
    """Live bytes of each GPU of each process, from 0 at the start of the recording: what was before is not known."""
    memory = trace.memory
    is_device = ~np.isin(memory["kind"], HOST_MEMORY)
    keys = np.stack([memory["process"], memory["device"]], axis=1)[is_device].reshape(-1, 2)
    counters = []
    for process, device in np.unique(keys, axis=0).tolist():
        mine = np.flatnonzero(is_device & (memory["process"] == process) & (memory["device"] == device))
        times = np.concatenate(([trace.start_ns], memory["time_ns"][mine])) - origin_ns
        live = np.concatenate(([0], np.cumsum(memory["bytes"][mine])))
        name = f"GPU {device} memory" if device != NONE else "GPU memory"
        counters.append(Counter(process_rows[max(process, 0)], name, "bytes", *thinned(times, live)))
    return tuple(counters)
