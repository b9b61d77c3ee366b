"""Fields of an event of torch.profiler: values of any type in, numbers out; NONE for what is not a number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profkit.capture.schema import NONE, CopyDirection, MemoryKind
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


def args_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments; none where they are no object."""
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
    """Three sizes of a grid or a block."""
    if (
        isinstance(values, list)
        and len(values) == 3
        and all(type(v) is int and 0 <= v <= LARGEST_SMALL for v in values)
    ):
        return (values[0], values[1], values[2])
    return (NONE, NONE, NONE)


def copy_ends(name: str) -> tuple[int, int, int]:
    """Direction, source and target of a copy, told by its name: `Memcpy HtoD (Pageable -> Device)`."""
    match = _COPY.match(name)
    if not match:
        return (CopyDirection.OTHER, NONE, NONE)
    direction = _DIRECTIONS.get(match[1] + match[2], CopyDirection.OTHER)
    source, target = (MemoryKind.__members__.get((word or "").upper(), NONE) for word in (match[3], match[4]))
    return (direction, source, target)
