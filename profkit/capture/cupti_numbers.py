"""CUPTI's numbers for copies, kinds of memory and its own overhead, which Nsight Systems uses too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profkit.capture.schema import NONE, ActivityKind, Column, CopyDirection, MemoryKind

DIRECTIONS = {
    # From 11 on: Nsight's copies of unified memory.
    **dict.fromkeys((1, 3, 11), CopyDirection.HOST_TO_DEVICE),
    **dict.fromkeys((2, 4, 12), CopyDirection.DEVICE_TO_HOST),
    **dict.fromkeys((5, 6, 7, 8, 13), CopyDirection.DEVICE_TO_DEVICE),
    9: CopyDirection.HOST_TO_HOST,
    10: CopyDirection.PEER_TO_PEER,
}
MEMORY_KINDS = {
    1: MemoryKind.PAGEABLE,
    2: MemoryKind.PINNED,
    3: MemoryKind.DEVICE,
    4: MemoryKind.ARRAY,
    5: MemoryKind.MANAGED,
    6: MemoryKind.DEVICE,
    7: MemoryKind.MANAGED,
}
OVERHEADS = {
    1: "compiling kernels",
    1 << 16: "CUPTI flushes its buffers",
    2 << 16: "CUPTI instruments kernels",
    3 << 16: "CUPTI makes its resources",
    4 << 16: "modules are loaded",
    5 << 16: "functions are loaded",
    6 << 16: "the command buffer is full",
    7 << 16: "CUPTI requests a buffer",
}
_WORDS = {
    CopyDirection.HOST_TO_DEVICE: "HtoD",
    CopyDirection.DEVICE_TO_HOST: "DtoH",
    CopyDirection.DEVICE_TO_DEVICE: "DtoD",
    CopyDirection.PEER_TO_PEER: "PtoP",
    CopyDirection.HOST_TO_HOST: "HtoH",
}


def translated(numbers: Column, meanings: Mapping[int, int], other: int) -> Column:
    """What the numbers mean; those without a meaning are `other`."""
    known, place = np.unique(numbers, return_inverse=True)
    return np.array([meanings.get(number, other) for number in known.tolist()], np.int8)[place]


def name_of_copy(kind: int, direction: int, source: int, target: int) -> str:
    """Of a copy or set, as torch.profiler writes it, so that traces of both can be compared."""
    ends = [MemoryKind(end).name.capitalize() if end != NONE else "Unknown" for end in (source, target)]
    if kind == ActivityKind.SET:
        return f"Memset ({ends[1]})"
    return f"Memcpy {_WORDS.get(CopyDirection(direction), '')} ({ends[0]} -> {ends[1]})".replace("  ", " ")
