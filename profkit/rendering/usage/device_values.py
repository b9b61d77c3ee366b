"""Numbers of the lines below a GPU trace's table: rows not shown, remainders and the total. Sums in, values out."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.attribution.usage import Remainder, Usage
from profkit.rendering.usage.columns import Value

DEVICE_SUMS = (
    "launches", "device_ns", "kernel_ns", "auxiliary_ns", "copy_ns", "dispatch_ns", "call_ns", "queue_ns", "sync_ns",
    "host_ns", "copy_bytes",
)  # fmt: skip


def device_values(sums: Mapping[str, int], own_ns: int, usage: Usage) -> dict[str, Value]:
    """Columns of a line that stands for several rows."""
    values: dict[str, Value] = {name.removesuffix("_ns"): value for name, value in sums.items()}
    values["device_share"] = _share(sums["device_ns"], usage)
    values["idle"] = own_ns - sums["kernel_ns"] - sums["auxiliary_ns"] - sums["copy_ns"]
    return values


def remainder_values(part: Remainder, usage: Usage) -> dict[str, Value]:
    """Columns of a remainder: what ran in it, if anything did, and what else its time went into."""
    values: dict[str, Value] = {name.removesuffix("_ns"): value for name, value in (part.parts or {}).items()}
    if not part.launches:
        return values | {"idle": part.time_ns}
    values |= {"launches": part.launches, "device": part.device_ns, "device_share": _share(part.device_ns or 0, usage)}
    if part.copy_bytes:
        values["copy_bytes"] = part.copy_bytes
    return values if usage.by in ("operator", "layer", "phase") else values | {"calls": part.launches}


def device_totals(usage: Usage) -> dict[str, Value]:
    """Columns of the last line, remainders included."""
    parts = usage.parts or {}
    values: dict[str, Value] = {name.removesuffix("_ns"): value for name, value in parts.items()}
    busy = sum(parts.get(name, 0) for name in ("kernel_ns", "auxiliary_ns", "copy_ns"))
    launches = _sum(usage, "launches") + sum(part.launches or 0 for part in usage.remainders)
    values |= {
        "idle": usage.wall_ns - busy,
        "launches": launches,
        "device": usage.device_ns,
        "device_share": _share(usage.device_ns or 0, usage),
        "copy_bytes": _sum(usage, "copy_bytes") + sum(part.copy_bytes or 0 for part in usage.remainders),
    }
    return values if usage.by in ("operator", "layer", "phase") else values | {"calls": launches}


def _share(device_ns: int, usage: Usage) -> Value:
    return 100.0 * device_ns / usage.device_ns if usage.device_ns else None


def _sum(usage: Usage, name: str) -> int:
    return sum(value or 0 for value in usage.rows.column(name))
