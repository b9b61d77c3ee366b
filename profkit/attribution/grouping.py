"""What one row of a table can be: the one table of groupings. Shares in, the group of every range and activity out.

A grouping is offered for a capture when the capture has a clock for which the grouping has a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from profkit.attribution.account import (
    DEVICES,
    STEPS,
    THREADS,
    DeviceShares,
    Shares,
    StepShares,
    ThreadShares,
    clocks_of,
)
from profkit.attribution.device.places import RangePlaces, places_of
from profkit.attribution.kernels.names import KernelName, distinct_shorts, parse_kernel
from profkit.attribution.networks.operators import Operators
from profkit.attribution.titles import dense, joined_texts, thread_titles, titles
from profkit.attribution.tree import is_in_tree
from profkit.capture.schema import NONE, ActivityKind, Capture, Column, CopyDirection, Level, MemoryKind, taken
from profkit.errors import UsageError, check_names

PATH_SEPARATOR = " > "
"""For people; titles may contain it, so rows carry their titles one by one as well."""
NO_CATEGORY, NO_DOMAIN = "(no category)", "(no domain)"
UNNAMED = "(unnamed)"
BATCHED = "batched"
"""The last word of a row of batched matrix products."""
PLACES = ("kind", "layer", "phase", "type")
"""What is known of an operator of a network."""


@dataclass(frozen=True)
class Groups:
    """Groups by number: NONE is the remainder. Where `of_range` is None, rows are activities and own no idle time."""

    names: Sequence[str]
    of_range: Column | None = None
    of_activity: Column | None = None
    texts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """What else is known of each group, by the name of the table's column: path, short, kind, type."""
    threads: Sequence[int] | None = None
    """By thread: the thread of each group."""
    is_call: Column | None = None
    """Ranges that may count as a call; None: all."""
    parent: Column | None = None
    """What the sums of a range go into as well; None: the enclosing range's."""
    is_nested: bool = False
    """Ranges nested in others of the same group each count as a call."""

    def __len__(self) -> int:
        return len(self.names)

    def owners(self, shares: Shares) -> Column:
        """The group of every share: that of the activity that runs, else of the range."""
        owner = np.full(len(shares.ns), NONE, np.int64)
        runs = shares.activity != NONE
        if self.of_activity is not None:
            owner[runs] = self.of_activity[shares.activity[runs]]
        if self.of_range is not None:
            rests = ~runs & (shares.range != NONE)
            owner[rests] = self.of_range[shares.range[rests]]
        return owner

    def sums(self, of_row: Column, values: Column) -> Column:
        """Sums of the values of rows by group; rows without a group do not count."""
        sums = np.zeros(len(self), np.int64)
        known = of_row != NONE
        np.add.at(sums, of_row[known], values[known])
        return sums


GroupKey = Callable[[Any], Groups]


# Ranges of a program, on the clock of threads.


def _by_name(shares: ThreadShares) -> Groups:
    of_range, names = titles(shares.capture, shares.is_shown)
    return Groups(names, of_range)


def _by_path(shares: ThreadShares) -> Groups:
    of_range, names = titles(shares.capture, shares.is_shown)
    of_range, ways = shares.tree.paths(of_range, names)
    paths = [tuple(names[number] for number in way) for way in ways]
    return Groups([PATH_SEPARATOR.join(path) for path in paths], of_range, texts={"path": paths})


def _by_thread(shares: ThreadShares) -> Groups:
    of_range, used = dense(shares.capture.ranges.thread.astype(np.int64), shares.is_shown)
    shown = thread_titles(shares.capture)
    return Groups([shown[thread] for thread in used], of_range, threads=used)


def _by_category(shares: ThreadShares) -> Groups:
    ranges = shares.capture.ranges
    of_range, names = joined_texts(shares.capture, ranges.domain, ranges.category, shares.is_shown, NO_CATEGORY)
    return Groups(names, of_range)


def _by_domain(shares: ThreadShares) -> Groups:
    ranges = shares.capture.ranges
    nothing = np.full(len(ranges), NONE, np.int32)
    of_range, names = joined_texts(shares.capture, nothing, ranges.domain, shares.is_shown, NO_DOMAIN)
    return Groups(names, of_range)


# Operators of a network, on the clock of steps.


def by_places(*columns: str) -> GroupKey:
    """`conv1/forward/Conv2D`: one or several of PLACES."""

    def title(operators: Operators, row: int) -> str:
        return "/".join(operators.text(column, row) or f"(no {column})" for column in columns)

    return lambda shares: _of_operators(
        shares.operators, [getattr(shares.operators, column) for column in columns], title
    )


def _by_operators_thread(shares: StepShares) -> Groups:
    shown, thread = thread_titles(shares.capture), shares.capture.ranges.thread
    return _of_operators(shares.operators, [thread], lambda _, row: shown[int(thread[row])])


def _by_operators_name(shares: StepShares) -> Groups:
    """As the source calls it."""
    names, strings = shares.capture.ranges.name, shares.capture
    return _of_operators(shares.operators, [names], lambda _, row: strings.text(int(names[row])) or UNNAMED)


def _of_operators(operators: Operators, codes: Sequence[Column], title: Callable[[Operators, int], str]) -> Groups:
    """One name per distinct place, not per range; unequal places may have one name."""
    rows = operators.rows
    of_range = np.full(len(operators.capture.ranges), NONE, np.int64)
    keys = np.stack([column[rows].astype(np.int64) for column in codes])
    _, first, of_row = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    numbers: dict[str, int] = {}
    named = [numbers.setdefault(title(operators, int(rows[row])), len(numbers)) for row in first]
    of_range[rows] = np.array(named, np.int64)[of_row.reshape(-1)] if named else NONE
    groups = Groups(list(numbers), of_range)
    return replace(groups, texts={column: _common(operators, groups, column) for column in PLACES})


def _common(operators: Operators, groups: Groups, column: str) -> list[str | None]:
    """The kind, layer, phase or type that all operators of a group have; None where they differ or have none."""
    assert groups.of_range is not None
    values = getattr(operators, column)[operators.rows].astype(np.int64)
    lowest = np.full(len(groups), np.iinfo(np.int64).max)
    highest = np.full(len(groups), np.iinfo(np.int64).min)
    one = np.zeros(len(groups), np.int64)
    of_row = groups.of_range[operators.rows]
    np.minimum.at(lowest, of_row, values)
    np.maximum.at(highest, of_row, values)
    one[of_row] = operators.rows
    found = [operators.text(column, int(row)) or None for row in one]
    return [text if low == high else None for text, low, high in zip(found, lowest, highest)]


# Ranges that launch work, and the work itself, on the clock of devices.


def _by_launching(shares: DeviceShares) -> Groups:
    """The innermost range of any level except a step."""
    capture = shares.capture
    of_range, names = titles(capture, is_in_tree(capture) & (capture.ranges.level != Level.STEP))
    return _of_ranges(capture, names, of_range, is_nested=True)


def _by_layer(shares: DeviceShares) -> Groups:
    """Calls are those of the layer itself; a backward operator is a part of it and of the layers around it, no call."""
    capture = shares.capture
    places = places_of(capture)
    is_layer = capture.ranges.level == Level.LAYER
    return replace(_by_place(capture, places, places.layer), is_call=is_layer, parent=places.parent)


def _by_phase(shares: DeviceShares) -> Groups:
    capture = shares.capture
    places = places_of(capture)
    return _by_place(capture, places, places.phase)


def _by_place(capture: Capture, places: RangePlaces, column: Column) -> Groups:
    texts, of_range = _numbered(np.where(is_in_tree(capture), column, NONE))
    return _of_ranges(capture, [places.texts[text] for text in texts], of_range)


def _of_ranges(capture: Capture, names: list[str], of_range: Column, is_nested: bool = False) -> Groups:
    return Groups(names, of_range, taken(of_range, capture.activities.range), is_nested=is_nested)


def _by_kernel(shares: DeviceShares) -> Groups:
    capture = shares.capture
    numbers, of_activity = _numbered(capture.activities.name)
    names = [capture.text(number) for number in numbers]
    is_kernel = np.zeros(len(names), bool)
    is_kernel[of_activity[capture.activities.kind == ActivityKind.KERNEL]] = True
    parsed = [parse_kernel(name) if kernel else None for name, kernel in zip(names, is_kernel.tolist())]
    texts = {
        "short": distinct_shorts(names, [each.short if each else None for each in parsed]),
        "kind": [each.family if each else None for each in parsed],
        "type": [each.library if each else None for each in parsed],
    }
    return Groups(names, of_activity=of_activity, texts=texts)


def _by_launch(shares: DeviceShares) -> Groups:
    """Operator and kernel together: what each operator launched, and who launched each kernel."""
    operators, kernels = _by_launching(shares), _by_kernel(shares)
    assert operators.of_activity is not None and kernels.of_activity is not None
    pairs = np.stack([operators.of_activity, kernels.of_activity], axis=1)
    known, of_activity = np.unique(pairs, axis=0, return_inverse=True)
    launchers = [operators.names[operator] if operator != NONE else "?" for operator in known[:, 0].tolist()]
    rows = known[:, 1].tolist()
    texts = {name: [values[row] for row in rows] for name, values in kernels.texts.items()}
    names = [kernels.names[row] for row in rows]
    texts["short"] = [f"{launcher}: {short or name}" for launcher, short, name in zip(launchers, texts["short"], names)]
    titled = [f"{launcher}: {name}" for launcher, name in zip(launchers, names)]
    return Groups(titled, of_activity=of_activity.reshape(-1).astype(np.int64), texts=texts)


def _by_gemm(shares: DeviceShares) -> Groups:
    """Matrix products by tile, transposes, number format, plain or batched."""
    capture = shares.capture
    activities = capture.activities
    texts, of_name = _numbered(np.where(activities.kind == ActivityKind.KERNEL, activities.name, NONE))
    parsed = [parse_kernel(capture.text(text)) for text in texts]
    named = [_gemm_title(each) if each.family in ("gemm", "gemv") and not each.is_auxiliary else "" for each in parsed]
    rows = {title: row for row, title in enumerate(dict.fromkeys(filter(None, named)))}
    of_text = np.array([*(rows.get(title, NONE) for title in named), NONE], np.int64)
    libraries = {title: each.library for title, each in zip(named, parsed) if title}
    return Groups(list(rows), of_activity=of_text[of_name], texts={"type": [libraries[title] for title in rows]})


def _gemm_title(kernel: KernelName) -> str:
    shape = "_".join(filter(None, (kernel.tile, kernel.transposes))) or kernel.short
    formats = [kernel.dtype, "tensor cores" if kernel.uses_tensor_cores else "", BATCHED if kernel.is_batched else ""]
    return " ".join(filter(None, (kernel.family if kernel.family != "gemm" else "", shape, *formats)))


def _by_copy(shares: DeviceShares) -> Groups:
    """Copies by direction and the kinds of memory at both ends, and sets."""
    return _of_activities(shares.capture, ("kind", "direction", "source_kind", "target_kind"), _copy_title)


def _copy_title(kind: int, direction: int, source: int, target: int) -> str:
    if kind == ActivityKind.KERNEL:
        return ""
    if kind == ActivityKind.SET:
        return "set"
    way = CopyDirection(direction).name.lower().replace("_", " ") if direction != NONE else "copy"
    ends = [MemoryKind(end).name.lower() if end != NONE else "unknown" for end in (source, target)]
    return way if ends == ["device", "device"] else f"{way} ({ends[0]} to {ends[1]})"


def _by_stream(shares: DeviceShares) -> Groups:
    """Device and stream; the process too, where several are known to use the device."""
    capture, activities = shares.capture, shares.capture.activities
    pairs = set(zip(activities.device.tolist(), activities.process.tolist()))
    users = Counter(device for device, process in pairs if process != NONE)

    def title(device: int, process: int, stream: int) -> str:
        owner = f" process {capture.processes[process].pid}" if users[device] > 1 and process != NONE else ""
        return f"{device_name(capture, device)}{owner} stream {stream if stream != NONE else '?'}"

    return _of_activities(capture, ("device", "process", "stream"), title)


def _by_device(shares: DeviceShares) -> Groups:
    capture = shares.capture
    return _of_activities(capture, ("device",), lambda device: device_name(capture, device, with_model=True))


def _of_activities(capture: Capture, columns: Sequence[str], title: Callable[..., str]) -> Groups:
    """By the titles of these columns' values; activities without a title are in no group."""
    names: dict[str, int] = {}
    numbers: dict[tuple[int, ...], int] = {}
    of_activity = []
    for values in zip(*(capture.activities[column].tolist() for column in columns)):
        if values not in numbers:
            name = title(*values)
            numbers[values] = names.setdefault(name, len(names)) if name else NONE
        of_activity.append(numbers[values])
    return Groups(list(names), of_activity=np.array(of_activity, np.int64))


def device_name(capture: Capture, device: int, with_model: bool = False) -> str:
    """`GPU 0`, with its model where that is known."""
    if device == NONE:
        return "GPU ?"
    model = next((each.name for each in capture.devices if each.id == device), "")
    return f"GPU {device} {model}".rstrip() if with_model else f"GPU {device}"


def _numbered(column: Column) -> tuple[list[int], Column]:
    """The distinct values without NONE, which is the least, and each entry's place among them."""
    values, inverse = np.unique(column, return_inverse=True)
    kept: list[int] = values.tolist()
    return (kept[1:], inverse - 1) if kept[:1] == [NONE] else (kept, inverse)


GROUPINGS: Mapping[str, Mapping[str, GroupKey]] = {
    "name": {THREADS: _by_name, STEPS: _by_operators_name},
    "path": {THREADS: _by_path},
    "thread": {THREADS: _by_thread, STEPS: _by_operators_thread},
    "category": {THREADS: _by_category},
    "domain": {THREADS: _by_domain},
    "kind": {STEPS: by_places("kind")},
    "type": {STEPS: by_places("type")},
    "operator": {STEPS: by_places("layer", "phase", "type"), DEVICES: _by_launching},
    "layer": {STEPS: by_places("layer"), DEVICES: _by_layer},
    "phase": {STEPS: by_places("phase"), DEVICES: _by_phase},
    "kernel": {DEVICES: _by_kernel},
    "launch": {DEVICES: _by_launch},
    "gemm": {DEVICES: _by_gemm},
    "copy": {DEVICES: _by_copy},
    "stream": {DEVICES: _by_stream},
    "device": {DEVICES: _by_device},
}
"""Values of --by, with the key that each has on a clock."""
USUAL: Mapping[str, str] = {THREADS: "name", STEPS: "kind", DEVICES: "operator"}
"""What a row is when nothing is chosen, by clock."""


def groupings_on(clock: str) -> tuple[str, ...]:
    """The groupings that have a key on this clock, the usual one first."""
    names = [name for name, keys in GROUPINGS.items() if clock in keys]
    return (USUAL[clock], *(name for name in names if name != USUAL[clock]))


def groupings_of(capture: Capture) -> Mapping[str, str]:
    """The groupings that a capture has, the default first, and the clock that each of them divides."""
    found: dict[str, str] = {}
    for clock in clocks_of(capture):
        for name in groupings_on(clock):
            found.setdefault(name, clock)
    return found


def choose_grouping(capture: Capture, by: str | None = None, clock: str | None = None) -> tuple[str, str]:
    """The named grouping, or the default, and its clock; UsageError if the capture does not have it."""
    clocks = clocks_of(capture)
    if clock is not None and clock not in clocks:
        raise UsageError(f"{capture.path or 'the capture'} has no time of {clock}, but of {' and of '.join(clocks)}")
    known = groupings_of(capture) if clock is None else dict.fromkeys(groupings_on(clock), clock)
    chosen = by or next(iter(known))
    if chosen in known:
        return chosen, known[chosen]
    if chosen not in GROUPINGS:
        check_names("the capture", [chosen], known, "grouping")
    about_gpu = "; ".join(warning for warning in capture.warnings if "GPU" in warning)
    reasons = {STEPS: "it has no steps of a network", DEVICES: about_gpu or "no GPU was recorded"}
    why = " and ".join(reasons[each] for each in GROUPINGS[chosen] if each in reasons)
    raise UsageError(f"{capture.path} has no table by {chosen}: {why}; its table can be by {', '.join(known)}")


def group(shares: Shares, by: str) -> Groups:
    """Groups of one of GROUPINGS; UsageError when these shares have no such groups."""
    check_names(f"the time of {shares.clock}", [by], groupings_on(shares.clock), "grouping")
    return GROUPINGS[by][shares.clock](shares)
