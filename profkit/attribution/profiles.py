"""What two captures are compared by: a capture or run goes in, a Profile (times per step, call or launch) comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.attribution.account import DEVICES, OWN, STEPS, Shares, account, clocks_of
from profkit.attribution.grouping import Groups, by_places, choose_grouping, group
from profkit.attribution.metrics import TIME_PASS
from profkit.attribution.passes import main_capture
from profkit.capture.run import Run
from profkit.capture.schema import Activities, Capture, Column, Ranges
from profkit.errors import UsageError

STEP, CALL, LAUNCH = "step", "call", "launch"
RECORDED, NOT_RECORDED = "step, recorded", "step, not recorded"
MOST_SAMPLES = 40
"""Calls of a range, one after another, are grouped into this number of medians: consecutive ones share disturbances."""


@dataclass(frozen=True)
class ProfileRow:
    """One row: its times, and what they are a part of."""

    samples_ns: Sequence[Sequence[float]]  # of each process; per step (0: did not occur in it), call or launch
    calls: float  # per step, or in all
    share: float | None  # of the whole, from 0 to 1


@dataclass(frozen=True)
class ComparableProfile:
    """A capture, ready to be compared."""

    per: str
    by: str
    rows: Mapping[str, ProfileRow]
    totals: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    """Total times by name; the first one is the time a user sees."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What must be equal for the comparison to be fair, and other differences between the two."""
    trouble: str = ""
    """What makes its times doubtful."""
    dropped: Sequence[str] = ()
    """Processes that do not count, each with what disturbed it."""
    processes: int = 1


def usual_grouping(a: Capture | Run, b: Capture | Run) -> str:
    """What a row is when nothing is chosen: an operator, which has other names in another framework; else a name."""
    has_steps = [clocks_of(main_capture(each))[0] == STEPS for each in (a, b)]
    if not any(has_steps):
        return "name"
    if not all(has_steps):
        raise UsageError("one capture is of a network's steps, the other of a program: they have no rows in common")
    return "operator" if a.framework == b.framework else "layer"


def profile_of(opened: Capture | Run, by: str) -> ComparableProfile:
    """Times per step of operators and of what remains of the steps; per call of ranges; per launch of GPU work."""
    capture = main_capture(opened)
    chosen, clock = choose_grouping(capture, by)
    if clock == DEVICES and not len(capture.activities):
        raise UsageError(f"--by {by} compares what GPUs did: {capture.path} has nothing of a GPU")
    shares = account(capture, clock)
    # Of two networks, what a layer does in its phases is compared.
    is_layer = clock == STEPS and chosen == "layer"
    groups = by_places("layer", "phase")(shares) if is_layer else group(shares, chosen)
    run = opened if isinstance(opened, Run) else None
    about = _about(run) if run else {"program": _program(capture)}
    trouble = run.disturbance() if run else ""
    dropped = run.disturbed_processes() if run and not trouble else {}
    if clock != STEPS:
        per, rows = (LAUNCH, _launch_rows) if clock == DEVICES else (CALL, _call_rows)
        return ComparableProfile(per, chosen, rows(shares, groups), about=about, trouble=trouble)
    recorded = run.process_passes(TIME_PASS) if run else [capture]
    first_steps = np.cumsum([0, *(0 if each is None else len(each.steps) for each in recorded)])
    kept = [number for number in range(len(first_steps) - 1) if number not in dropped]
    parts = [slice(*first_steps[number : number + 2]) for number in kept]
    steps = (capture.steps.end_ns - capture.steps.start_ns).tolist()
    unrecorded = [run.process_steps()[number] for number in kept] if run else []
    totals = {NOT_RECORDED: [samples for samples in unrecorded if samples], RECORDED: [steps[part] for part in parts]}
    known = {name: processes for name, processes in totals.items() if processes}
    left_out = [f"process {number + 1}: {why}" for number, why in dropped.items()]
    return ComparableProfile(
        STEP, chosen, _step_rows(shares, groups, parts), known, about, trouble, left_out, len(kept)
    )


def _step_rows(shares: Shares, groups: Groups, parts: Sequence[slice]) -> dict[str, ProfileRow]:
    """A sample per step of the processes that count; remainders are rows, where there is anything of them."""
    steps, rest = len(shares.capture.steps), [f"({name})" for name in shares.parts if name != OWN]
    owner = np.where(shares.part == 0, groups.owners(shares), len(groups) + shares.part - 1)
    times = np.zeros((len(groups) + len(rest), steps), np.int64)
    np.add.at(times, (owner, shares.step), shares.ns)
    calls = np.bincount(owner[shares.part == 0], minlength=len(times)).tolist()
    rows = {}
    for number, name in enumerate((*groups.names, *rest)):
        if number < len(groups) or times[number].any():
            share = int(times[number].sum()) / shares.wall_ns
            samples = [times[number, part].tolist() for part in parts if part.start < part.stop]
            rows[name] = ProfileRow(samples, calls[number] / steps, share)
    return rows


def _call_rows(shares: Shares, groups: Groups) -> dict[str, ProfileRow]:
    assert groups.of_range is not None
    own = groups.sums(groups.owners(shares), shares.ns)
    return _sampled(shares.capture.ranges, groups.of_range, groups.names, own, shares.wall_ns)


def _launch_rows(shares: Shares, groups: Groups) -> dict[str, ProfileRow]:
    assert groups.of_activity is not None
    work, owner = shares.capture.activities, groups.of_activity
    durations = work.end_ns - work.start_ns
    rows = _sampled(work, owner, groups.names, groups.sums(owner, durations), int(durations.sum()))
    return {name: row for name, row in rows.items() if row.calls}


def _sampled(
    table: Ranges | Activities, of_row: Column, names: Sequence[str], sums: Column, whole: int
) -> dict[str, ProfileRow]:
    """The durations of each group's rows, in order of time."""
    durations = table.end_ns - table.start_ns
    order = np.lexsort((table.start_ns, of_row))
    order = order[of_row[order] >= 0]
    borders = np.searchsorted(of_row[order], np.arange(len(names) + 1))
    rows = {}
    for number, name in enumerate(names):
        calls = durations[order[borders[number] : borders[number + 1]]]
        share = int(sums[number]) / whole if whole else None
        rows[name] = ProfileRow([gathered(calls.tolist())], len(calls), share)
    return rows


def _about(run: Run) -> dict[str, str]:
    parameters = dict(run.network)
    name = parameters.pop("network", "")
    versions = {f"{run.framework} {name}": value for name, value in run.versions.items()}
    return {
        "network": " ".join([str(name), *(f"{key} {value}" for key, value in parameters.items())]),
        "framework": run.framework,
        "mode": run.mode,
        "threads": str(run.threads),
        "step": "training" if run.is_training else "inference",
        "machine": str(run.environment.get("cpu", "")),
        "data": run.data,
        **versions,
    }


def _program(capture: Capture) -> str:
    return next((process.name or " ".join(process.command) for process in capture.processes), "")


def gathered(values: Sequence[float]) -> list[float]:
    """At most MOST_SAMPLES values: medians of consecutive ones."""
    if len(values) <= MOST_SAMPLES:
        return list(values)
    return [float(np.median(part)) for part in np.array_split(np.asarray(values, np.float64), MOST_SAMPLES)]
