"""What a trace of torch.profiler says of itself beside its events: devices, versions, ranks, complaints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profkit.capture.importers.kineto_fields import integer, small
from profkit.capture.schema import NONE, Device

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


def devices_of(about: Mapping[str, Any]) -> tuple[Device, ...]:
    """The GPUs of the machine; one without a number cannot be told from others."""
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
