"""What two captures are compared by: a capture goes in, a Profile (times per step or per call) comes out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.attribution.attribute import usage_by
from profkit.attribution.device.groups import groups_by
from profkit.attribution.grouping import group_ranges
from profkit.attribution.networks.operators import Operators, operators_of
from profkit.attribution.tree import is_mark, tree_of
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.schema import Activities, Capture, Column, Process, Ranges

STEP, CALL, LAUNCH = "step", "call", "launch"
NETWORK_GROUPINGS: dict[str, tuple[str, ...]] = {
    "operator": ("layer", "phase", "type"),
    "layer": ("layer", "phase"),
    "kind": ("kind",),
    "type": ("type",),
    "name": (),
}
"""What a row of two networks is, and the columns that its name consists of; by name: as the source has it."""
RECORDED, NOT_RECORDED = "step, recorded", "step, not recorded"
RANGE_GROUPINGS = ("name", "path", "category", "domain", "thread")
MOST_SAMPLES = 40
"""Calls of a range, one after another, are gathered into so many medians: neighbours share what disturbs them."""


@dataclass(frozen=True)
class ProfileRow:
    """One row: its times, and what they are a part of."""

    samples_ns: Sequence[float]  # per step (0: did not occur in it), per call or per launch
    calls: float  # per step, or in all
    share: float | None  # of the whole, from 0 to 1


@dataclass(frozen=True)
class ComparableProfile:
    """A capture, ready to be compared."""

    per: str
    by: str
    rows: Mapping[str, ProfileRow]
    totals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Times of the whole, by what is meant by it; the first one is what a user feels."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What must be equal for the comparison to be fair, and what else tells the two apart."""
    trouble: str = ""
    """What makes its times doubtful."""


def network_profile(capture: NetworkCapture, by: str = "operator") -> ComparableProfile:
    """Times per step of a network's operators and of what remains of the steps."""
    operators = operators_of(capture)
    times = _named_times(operators, by)
    calls = _named_calls(operators, by)
    for name, per_step in operators.remainders.items():
        if per_step.any():
            times[f"({name})"] = per_step
    whole = int(operators.step_ns.sum())
    rows = {
        name: ProfileRow(per_step.tolist(), calls.get(name, 0) / operators.steps, int(per_step.sum()) / whole)
        for name, per_step in times.items()
    }
    totals = {NOT_RECORDED: capture.step_ns, RECORDED: operators.step_ns.tolist()}
    known = {name: samples for name, samples in totals.items() if samples}
    return ComparableProfile(STEP, by, rows, known, _about(capture), capture.disturbance())


def _named_times(operators: Operators, by: str) -> dict[str, Column]:
    """Nanoseconds of every step by the name of a row."""
    columns = NETWORK_GROUPINGS[by]
    found: dict[str, Column] = {}
    if not len(operators.rows):
        return found
    if columns:
        for texts, per_step in operators.wall_by(*columns).items():
            name = _title(columns, texts)
            found[name] = found[name] + per_step if name in found else per_step
        return found
    for row, name in zip(operators.rows.tolist(), _source_names(operators)):
        per_step = found.setdefault(name, np.zeros(operators.steps, np.int64))
        per_step[operators.step[row]] += operators.wall_ns[row]
    return found


def _named_calls(operators: Operators, by: str) -> Counter[str]:
    columns = NETWORK_GROUPINGS[by]
    if not columns:
        return Counter(_source_names(operators))
    texts = [[operators.text(column, row) for column in columns] for row in operators.rows.tolist()]
    return Counter(_title(columns, each) for each in texts)


def _source_names(operators: Operators) -> list[str]:
    names = operators.recording.text("name")
    return [names[row] or "(unnamed)" for row in operators.rows.tolist()]


def _title(columns: Sequence[str], texts: Sequence[str]) -> str:
    """`conv1/forward/Conv2D`."""
    return "/".join(text or f"(no {column})" for column, text in zip(columns, texts))


def _about(capture: NetworkCapture) -> dict[str, str]:
    parameters = dict(capture.network)
    name = parameters.pop("network", "")
    versions = {f"{capture.framework} {name}": value for name, value in capture.versions.items()}
    return {
        "network": " ".join([str(name), *(f"{key} {value}" for key, value in parameters.items())]),
        "framework": capture.framework,
        "mode": capture.mode,
        "threads": str(capture.threads),
        "step": "training" if capture.is_training else "inference",
        "machine": str(capture.environment.get("cpu", "")),
        "data": capture.data,
        **versions,
    }


def range_profile(capture: Capture, by: str = "name") -> ComparableProfile:
    """Times per call of the ranges of a program."""
    usage = usage_by(capture, by)
    shares = {row.name: row.exclusive_ns / usage.wall_ns if usage.wall_ns else None for row in usage.rows}
    groups = group_ranges(capture, tree_of(capture), by, ~is_mark(capture))
    return ComparableProfile(
        CALL, by, _rows(capture.ranges, groups.of_row, groups.names, shares), about=_about_program(capture)
    )


def device_profile(capture: Capture, by: str = "operator") -> ComparableProfile:
    """Times per kernel, copy or set of what GPUs did."""
    groups, work = groups_by(capture, by), capture.activities
    durations = work.end_ns - work.start_ns
    whole = int(durations.sum())
    sums = np.bincount(groups.of_activity + 1, durations, len(groups.names) + 1)[1:].tolist()
    shares = {name: total / whole if whole else None for name, total in zip(groups.names, sums)}
    rows = _rows(work, groups.of_activity, groups.names, shares)
    launched = {name: row for name, row in rows.items() if row.calls}
    return ComparableProfile(LAUNCH, by, launched, about=_about_program(capture))


def _rows(
    table: Ranges | Activities, of_row: Column, names: Sequence[str], shares: Mapping[str, float | None]
) -> dict[str, ProfileRow]:
    """The durations of each group's rows, in order of time."""
    durations = table.end_ns - table.start_ns
    order = np.lexsort((table.start_ns, of_row))
    order = order[of_row[order] >= 0]
    borders = np.searchsorted(of_row[order], np.arange(len(names) + 1))
    rows = {}
    for number, name in enumerate(names):
        calls = durations[order[borders[number] : borders[number + 1]]]
        rows[name] = ProfileRow(gathered(calls.tolist()), len(calls), shares.get(name))
    return rows


def _about_program(capture: Capture) -> dict[str, str]:
    first = capture.processes[0] if capture.processes else Process()
    return {"program": first.name or " ".join(first.command)}


def gathered(values: Sequence[float]) -> list[float]:
    """At most MOST_SAMPLES values: medians of neighbours."""
    if len(values) <= MOST_SAMPLES:
        return list(values)
    return [float(np.median(part)) for part in np.array_split(np.asarray(values, np.float64), MOST_SAMPLES)]
