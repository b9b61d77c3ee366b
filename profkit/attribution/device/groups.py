"""What one row of a table of a GPU trace is: a trace and a grouping in, the row of each range and activity out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from profkit.attribution.device.places import RangePlaces, places_of
from profkit.attribution.grouping import titles
from profkit.attribution.kernels.names import KernelName, parse_kernel
from profkit.attribution.kernels.variants import distinct_shorts
from profkit.attribution.tree import is_in_tree
from profkit.capture.schema import NONE, ActivityKind, Capture, Column, CopyDirection, Level, MemoryKind

BATCHED = "batched"
"""The last word of a row of batched matrix products."""


@dataclass(frozen=True)
class DeviceGroups:
    """Rows by number; NONE is the remainder. A table of ranges owns idle time too, one of activities does not."""

    names: tuple[str, ...]
    of_activity: Column
    of_range: Column | None = None
    shorts: tuple[str | None, ...] = ()
    kinds: tuple[str | None, ...] = ()
    types: tuple[str | None, ...] = ()
    is_call: Column | None = None  # ranges that may count as a call; None: all
    parent: Column | None = None  # what the sums of a range go into as well; None: the enclosing range's
    is_nested: bool = False  # of ranges that lie in others of the same row each counts as a call


def groups_by(capture: Capture, by: str) -> DeviceGroups:
    """Rows of one of GROUPINGS."""
    return GROUPINGS[by](capture)


def _by_operator(capture: Capture) -> DeviceGroups:
    """The innermost range, whatever it stands for; a step alone is not an operator."""
    of_range, names = titles(capture, is_in_tree(capture) & (capture.ranges.level != Level.STEP))
    return _of_ranges(capture, names, of_range, is_nested=True)


def _by_layer(capture: Capture) -> DeviceGroups:
    """Calls are those of the layer itself; a backward operator is a part of it and of the layers around it, no call."""
    places = places_of(capture)
    is_layer = capture.ranges.level == Level.LAYER
    return replace(_by_place(capture, places, places.layer), is_call=is_layer, parent=places.parent)


def _by_phase(capture: Capture) -> DeviceGroups:
    places = places_of(capture)
    return _by_place(capture, places, places.phase)


def _by_place(capture: Capture, places: RangePlaces, column: Column) -> DeviceGroups:
    texts, of_range = _numbered(np.where(is_in_tree(capture), column, NONE))
    return _of_ranges(capture, [places.texts[text] for text in texts], of_range)


def _of_ranges(capture: Capture, names: list[str], of_range: Column, is_nested: bool = False) -> DeviceGroups:
    place = capture.activities.range
    of_activity = np.where(place == NONE, NONE, of_range[np.maximum(place, 0)] if len(of_range) else NONE)
    return DeviceGroups(tuple(names), of_activity, of_range, is_nested=is_nested)


def _by_kernel(capture: Capture) -> DeviceGroups:
    """Everything that ran, by its name."""
    texts, of_activity = _numbered(capture.activities.name)
    names = [capture.text(text) for text in texts]
    is_kernel = np.zeros(len(names), bool)
    is_kernel[of_activity[capture.activities.kind == ActivityKind.KERNEL]] = True
    parsed = [parse_kernel(name) if kernel else None for name, kernel in zip(names, is_kernel.tolist())]
    return DeviceGroups(
        tuple(names),
        of_activity,
        shorts=distinct_shorts(names, [each.short if each else None for each in parsed]),
        kinds=tuple(each.family if each else None for each in parsed),
        types=tuple(each.library if each else None for each in parsed),
    )


def _by_launch(capture: Capture) -> DeviceGroups:
    """Operator and kernel together: what each operator launched, and who launched each kernel."""
    operators, kernels = _by_operator(capture), _by_kernel(capture)
    pairs = np.stack([operators.of_activity, kernels.of_activity], axis=1)
    known, of_activity = np.unique(pairs, axis=0, return_inverse=True)
    launchers = [operators.names[operator] if operator != NONE else "?" for operator in known[:, 0].tolist()]
    rows = known[:, 1].tolist()
    return DeviceGroups(
        tuple(f"{launcher}: {kernels.names[row]}" for launcher, row in zip(launchers, rows)),
        of_activity.reshape(-1).astype(np.int64),
        shorts=tuple(
            f"{launcher}: {kernels.shorts[row] or kernels.names[row]}" for launcher, row in zip(launchers, rows)
        ),
        kinds=tuple(kernels.kinds[row] for row in rows),
        types=tuple(kernels.types[row] for row in rows),
    )


def _by_gemm(capture: Capture) -> DeviceGroups:
    """Matrix products by tile, transposes, number format, plain or batched."""
    activities = capture.activities
    texts, of_name = _numbered(np.where(activities.kind == ActivityKind.KERNEL, activities.name, NONE))
    parsed = [parse_kernel(capture.text(text)) for text in texts]
    titles = [_gemm_title(each) if each.family in ("gemm", "gemv") and not each.is_auxiliary else "" for each in parsed]
    rows = {title: row for row, title in enumerate(dict.fromkeys(filter(None, titles)))}
    of_text = np.array([*(rows.get(title, NONE) for title in titles), NONE], np.int64)
    libraries = {title: each.library for title, each in zip(titles, parsed) if title}
    return DeviceGroups(tuple(rows), of_text[of_name], types=tuple(libraries[title] for title in rows))


def _gemm_title(kernel: KernelName) -> str:
    shape = "_".join(filter(None, (kernel.tile, kernel.transposes))) or kernel.short
    formats = [kernel.dtype, "tensor cores" if kernel.uses_tensor_cores else "", BATCHED if kernel.is_batched else ""]
    return " ".join(filter(None, (kernel.family if kernel.family != "gemm" else "", shape, *formats)))


def _by_copy(capture: Capture) -> DeviceGroups:
    """Copies by direction and the kinds of memory at both ends, and sets."""
    activities = capture.activities
    columns = (activities[name].tolist() for name in ("kind", "direction", "source_kind", "target_kind"))
    rows: dict[str, int] = {}
    titles: dict[tuple[int, ...], int] = {}
    of_activity = []
    for key in zip(*columns):
        if key not in titles:
            title = _copy_title(*key)
            titles[key] = rows.setdefault(title, len(rows)) if title else NONE
        of_activity.append(titles[key])
    return DeviceGroups(tuple(rows), np.array(of_activity, np.int64))


def _copy_title(kind: int, direction: int, source: int, target: int) -> str:
    if kind == ActivityKind.KERNEL:
        return ""
    if kind == ActivityKind.SET:
        return "set"
    way = CopyDirection(direction).name.lower().replace("_", " ") if direction != NONE else "copy"
    ends = [MemoryKind(end).name.lower() if end != NONE else "unknown" for end in (source, target)]
    return way if ends == ["device", "device"] else f"{way} ({ends[0]} to {ends[1]})"


def _by_stream(capture: Capture) -> DeviceGroups:
    """Device and stream; the process too, where several are known to use the device."""
    activities = capture.activities
    columns = [activities[name].tolist() for name in ("device", "process", "stream")]
    users = Counter(device for device, process in set(zip(*columns[:2])) if process != NONE)
    rows: dict[str, int] = {}
    of_activity = []
    for device, process, stream in zip(*columns):
        owner = f" process {capture.processes[process].pid}" if users[device] > 1 and process != NONE else ""
        number = stream if stream != NONE else "?"
        of_activity.append(rows.setdefault(f"{device_name(capture, device)}{owner} stream {number}", len(rows)))
    return DeviceGroups(tuple(rows), np.array(of_activity, np.int64))


def _by_device(capture: Capture) -> DeviceGroups:
    devices, of_activity = _numbered(capture.activities.device, absent=None)
    return DeviceGroups(tuple(device_name(capture, device, with_model=True) for device in devices), of_activity)


def device_name(capture: Capture, device: int, with_model: bool = False) -> str:
    """`GPU 0`, with its model where that is known."""
    if device == NONE:
        return "GPU ?"
    model = next((each.name for each in capture.devices if each.id == device), "")
    return f"GPU {device} {model}".rstrip() if with_model else f"GPU {device}"


def _numbered(column: Column, absent: int | None = NONE) -> tuple[list[int], Column]:
    """The distinct values without `absent`, and each entry's place among them."""
    values, inverse = np.unique(column, return_inverse=True)
    kept = values.tolist()
    if absent is None or absent not in kept:
        return kept, inverse.astype(np.int64)
    gone = kept.index(absent)
    places = np.array([NONE if place == gone else place - (place > gone) for place in range(len(kept))], np.int64)
    return [value for value in kept if value != absent], places[inverse]


GROUPINGS: Mapping[str, Callable[[Capture], DeviceGroups]] = {
    "operator": _by_operator,
    "layer": _by_layer,
    "phase": _by_phase,
    "kernel": _by_kernel,
    "launch": _by_launch,
    "gemm": _by_gemm,
    "copy": _by_copy,
    "stream": _by_stream,
    "device": _by_device,
}
