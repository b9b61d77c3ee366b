"""What torch's allocator gives out and takes back while something runs, block by block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profkit.capture.schema import NONE
from profkit.frameworks.lazy import torch
from profkit.frameworks.networks.contract import Allocations
from profkit.frameworks.torch.events import record_events
from profkit.frameworks.torch.raw_events import RUNTIME, TorchEvents

OUTSIDE = "outside of operators"


def record_allocations(run: Callable[[], None]) -> Allocations:
    """Of this thread, on which torch runs backward passes on CPU, too."""
    return allocations_of(record_events(torch, {}, run, []))


def allocations_of(events: TorchEvents) -> Allocations:
    """Without the end of blocks that were given out before: nothing else is known of them."""
    holder: dict[int, int] = {}
    blocks, kept = [], []
    count = 0
    for row, (address, size) in enumerate(zip(*(events.allocations[name].tolist() for name in ("address", "bytes")))):
        if size > 0:
            holder[address], count = count, count + 1
            blocks.append(holder[address])
        elif address in holder:
            blocks.append(holder.pop(address))
        else:
            continue
        kept.append(row)
    columns = {name: events.allocations[name][kept] for name in ("time_ns", "bytes", "span")}
    names = [*events.names, OUTSIDE]
    outer = _outermost(events, len(events.names))
    where = np.where(columns["span"] == NONE, len(events.names), outer[columns["span"]])
    return Allocations(columns["time_ns"], columns["bytes"], np.array(blocks, np.int64), where, names)


def _outermost(events: TorchEvents, unknown: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each span the name of the outermost operator around it; a parent precedes its children."""
    found: list[int] = []
    rows = zip(*(events.spans[name].tolist() for name in ("parent", "name", "scope")))
    for parent, name, scope in rows:
        if scope == RUNTIME:
            found.append(unknown)
        else:
            found.append(found[parent] if parent != NONE and found[parent] != unknown else name)
    return np.array([*found, unknown], np.int64)
