"""GPU memory over time for traces: the memory events of a capture go in, counters of bounded length come out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.capture.schema import HOST_MEMORY, NONE, Capture
from profkit.rendering.traces.counters import Counter, thinned


def device_memory_counters(capture: Capture, process_rows: Sequence[int]) -> tuple[Counter, ...]:
    """Live bytes of each GPU of each process, from 0 at the start of the recording: what was before is not known."""
    memory = capture.memory_events
    is_device = ~np.isin(memory.kind, HOST_MEMORY)
    keys = np.stack([memory.process, memory.device], axis=1)[is_device].reshape(-1, 2)
    counters = []
    for process, device in np.unique(keys, axis=0).tolist():
        mine = np.flatnonzero(is_device & (memory.process == process) & (memory.device == device))
        times = np.concatenate(([capture.start_ns], memory.time_ns[mine])) - capture.origin_ns
        live = np.concatenate(([0], np.cumsum(memory.bytes[mine])))
        name = f"GPU {device} memory" if device != NONE else "GPU memory"
        counters.append(Counter(process_rows[max(process, 0)], name, "bytes", *thinned(times, live)))
    return tuple(counters)
