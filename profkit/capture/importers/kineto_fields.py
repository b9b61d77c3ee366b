"""Fields of torch.profiler's traces: values of any type in, numbers out; NONE for anything else.

Those of events, and what a trace says of itself beside them: devices, versions, ranks, complaints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from profkit.capture.schema import NONE, CopyDirection, Device, MemoryKind
from profkit.capture.trace_tables import LARGEST, LARGEST_SMALL

_COPY = re.compile(r"Memcpy (\w)to(\w)(?: \((\w+) -> (\w+)\))?")
_DIRECTIONS = {
    "HD": CopyDirection.HOST_TO_DEVICE,
    "DH": CopyDirection.DEVICE_TO_HOST,
    "DD": CopyDirection.DEVICE_TO_DEVICE,
    "PP": CopyDirection.PEER_TO_PEER,
    "HH": CopyDirection.HOST_TO_HOST,
    "HA": CopyDirection.HOST_TO_DEVICE,
    "AH": CopyDirection.DEVICE_TO_HOST,
}
_KEPT = (
    "schemaVersion", "displayTimeUnit", "traceName", "cuda_runtime_version", "cuda_driver_version", "cupti_version",
    "hip_runtime_version", "record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules",
)  # fmt: skip
_DEVICE = {
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
    "numSms": "multiprocessors",
    "totalGlobalMem": "memory_bytes",
}
_MESSAGES_SHOWN = 20
_LONGEST_MESSAGE = 2000
_COUNTS = re.compile(r"Record counts: (.*)")
_STOPPED = re.compile(r"CUPTI stopped early\? = [1-9]")
_TELLING = re.compile(r"(?:Invalid ext correlations|CPU GPU out-of-order|Unexpected CUDA events) = ([1-9]\d*)")


def args_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments; empty if they are not an object."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def identity(value: Any) -> Any:
    """An id of a process or a thread, which may be a text."""
    return value if isinstance(value, (int, str)) else str(value)


def integer(values: Mapping[str, Any], name: str) -> int:
    """A number of 64 bits."""
    value = values.get(name)
    return value if type(value) is int and -LARGEST <= value <= LARGEST else NONE


def correlation_and_external(args: Mapping[str, Any]) -> tuple[int, int]:
    """Ids of a call or of what it launched. Old traces repeat the first as the second: it names no operator then."""
    correlation, external = integer(args, "correlation"), integer(args, "External id")
    return correlation, NONE if external == correlation else external


def small(values: Mapping[str, Any], name: str) -> int:
    """A number of 32 bits."""
    value = values.get(name)
    return value if type(value) is int and -LARGEST_SMALL <= value <= LARGEST_SMALL else NONE


def triple(values: Any) -> tuple[int, int, int]:
    is_triple = isinstance(values, list) and len(values) == 3
    if is_triple and all(type(v) is int and 0 <= v <= LARGEST_SMALL for v in values):
        return (values[0], values[1], values[2])
    return (NONE, NONE, NONE)


@lru_cache(1000)
def copy_ends(name: str) -> tuple[int, int, int]:
    """Direction, source and target of a copy, from its name: `Memcpy HtoD (Pageable -> Device)`."""
    match = _COPY.match(name)
    if not match:
        return (CopyDirection.OTHER, NONE, NONE)
    direction = _DIRECTIONS.get(match[1] + match[2], CopyDirection.OTHER)
    source, target = (MemoryKind.__members__.get((word or "").upper(), NONE) for word in (match[3], match[4]))
    return (direction, source, target)


def devices_of(about: Mapping[str, Any]) -> tuple[Device, ...]:
    """The GPUs of the machine; one without a number cannot be distinguished from others."""
    listed = about.get("deviceProperties")
    devices = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return tuple(
        Device(
            id=number,
            name=str(each.get("name") or ""),
            **{name: integer(each, key) for key, name in _DEVICE.items()},
        )
        for each in devices
        if (number := small(each, "id")) != NONE
    )


def facts_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """Small facts worth keeping; who recorded it on which machine is not among them."""
    facts = {name: about[name] for name in _KEPT if isinstance(about.get(name), (int, str))}
    group = about.get("distributedInfo")
    if isinstance(group, dict):
        facts |= {name: group[name] for name in ("backend", "rank", "world_size") if name in group}
    return facts


def messages_of(about: Mapping[str, Any]) -> list[str]:
    """What the profiler itself complained of while it recorded."""
    lines = [f"the profiler said: {text}" for kind in ("ERROR", "WARNING") for text in _texts(about.get(kind))]
    for text in _texts(about.get("INFO")):
        counts = _COUNTS.search(text)
        if counts and (_STOPPED.search(text) or _TELLING.search(text)):
            lines.append(f"the profiler lost or could not place records: {counts[1]}")
    more = len(lines) - _MESSAGES_SHOWN
    return lines if more <= 0 else [*lines[:_MESSAGES_SHOWN], f"and {more:,} more messages of the profiler"]


def _texts(values: Any) -> list[str]:
    return [str(value)[:_LONGEST_MESSAGE] for value in values] if isinstance(values, list) else []
