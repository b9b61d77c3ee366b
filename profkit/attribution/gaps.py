"""A network against its baseline: per layer and phase the framework's time and its parts, beside native and bound.

Pure: a Run (with the baseline that was measured with it) goes in; docs/baseline.md has the words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profkit.attribution.bottleneck import Bottleneck, LayerNumbers, bottleneck, transfer
from profkit.attribution.kinds import AUXILIARY, BIAS, COPY, LOSS, REDUCE, REORDER, SOFTMAX
from profkit.attribution.networks.layer_dispatch import layer_dispatch
from profkit.attribution.networks.operators import NO_LAYER, LayerPhase, Operators, operators_of
from profkit.attribution.networks.pool import threading_losses
from profkit.capture.busy_machine import BUSY_LOAD
from profkit.capture.run import LATER, Run
from profkit.capture.schema import BACKWARD, FORWARD, NONE, OPTIMISER
from profkit.capture.schema import COPY as COPY_PHASE
from profkit.ops.networks import network_from_dict

TRANSFERS = frozenset({COPY, REORDER})
"""Kinds that only move numbers from one place or layout to another."""
WITHOUT_KERNEL = frozenset({BIAS, REDUCE})
"""Kinds of operators in a backward pass for which no native kernel exists, where no ReLU follows the bias."""
IN_LAYERS = (FORWARD, BACKWARD, COPY_PHASE)
"""Phases whose operators, if they have a layer, are shown with it."""
REST = "no operator running"
_OF_BASELINE = ("native_ns", "native_key", "bound_ns", "native_bound_ns", "flops", "bytes")


@dataclass(frozen=True)
class LayerGap:
    """One layer in one phase. Times are nanoseconds over all recorded steps; kernel + auxiliary + dispatch = framework.

    None means not observable, or not measured.
    """

    layer: str
    phase: str
    steps: int
    kernel_ns: int  # in operators that compute
    auxiliary_ns: int  # in operators that only move, pad, fill or make room
    dispatch_ns: int | None  # in the layer's code, while no operator ran
    threading_loss_ns: int | None  # of kernel_ns: what it would fall by if all threads had been busy in it
    by_kind_ns: Mapping[str, int]
    calls: int  # operators not called by other operators
    covered_ns: int  # of framework_ns: what the native kernels would replace
    native_ns: float | None  # these six of one step
    native_key: str | None
    bound_ns: float | None  # of the direct method
    native_bound_ns: float | None  # of the native kernels' method
    flops: int | None
    bytes: int | None
    bottleneck: Bottleneck | None

    @property
    def framework_ns(self) -> int:
        return self.kernel_ns + self.auxiliary_ns + (self.dispatch_ns or 0)

    @property
    def step_ns(self) -> float:
        return self.framework_ns / self.steps

    @property
    def ratio(self) -> float | None:
        """Times the native kernels; what they do not do is not counted."""
        return self.covered_ns / self.steps / self.native_ns if self.native_ns else None

    @property
    def native_saving_ns(self) -> float | None:
        """By how much a step would fall with the native kernels; negative: they are slower."""
        return None if self.native_ns is None else self.covered_ns / self.steps - self.native_ns

    @property
    def bound_saving_ns(self) -> float | None:
        """By how much a step would fall at the machine's bound."""
        return None if self.bound_ns is None else self.step_ns - self.bound_ns


@dataclass(frozen=True)
class Outside:
    """Time of the steps that belongs to no layer."""

    name: str
    ns: int
    bound_ns: float | None = None  # these two of one step
    native_ns: float | None = None


@dataclass(frozen=True)
class GapTable:
    """All of the recorded steps: rows + outside = wall_ns, exactly."""

    rows: tuple[LayerGap, ...]
    outside: tuple[Outside, ...]
    wall_ns: int
    steps: int
    threads: int
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None
    reference_keys: tuple[str, ...] = field(default=())
    """Native kernels in the table that are reference kernels, not tuned."""
    busy_load: float | None = None
    """The load average under which native kernels were timed, where that makes their times doubtful."""
    disturbance: str = ""
    """What makes the framework's times doubtful."""
    later: int = 0
    """Operators whose native kernels were not measured, because the time for them was over."""


def layer_gaps(run: Run) -> GapTable:
    """The time recording of a run against its baseline; without one, native and bound are None."""
    operators = operators_of(run)
    baseline = {(row["layer"], row["phase"]): row for row in run.baseline}
    dispatch = layer_dispatch(operators)

    def place(operators: Operators, row: int) -> LayerPhase:
        return _place(run, operators.text("layer", row), operators.text("phase", row))

    kinds = _kind_times(operators, run)
    names = [layer.name for layer in network_from_dict(run.network).layers]
    keys = [(name, phase) for phase in IN_LAYERS for name in names]
    # A compiler may fuse layers into one; such rows have a time but no baseline.
    keys += [key for key in kinds if key not in keys and key[0] != NO_LAYER and key[1] in IN_LAYERS]
    losses = threading_losses(run, operators, place)
    disturbance = run.disturbance()
    outermost = operators.rows[operators.above[operators.rows] == NONE].tolist()
    calls = Counter(place(operators, row) for row in outermost)
    rows = [
        _gap(
            key,
            kinds.get(key, {}),
            dispatch,
            losses.get(key),
            calls[key],
            operators.steps,
            baseline.get(key),
            bool(disturbance),
        )
        for key in keys
        if key in kinds or (dispatch or {}).get(key)
    ]
    outside = _outside(kinds, {(row.layer, row.phase) for row in rows}, baseline)
    wall_ns = int(operators.step_ns.sum())
    rest = wall_ns - sum(row.framework_ns for row in rows) - sum(each.ns for each in outside)
    peaks = run.baseline[0] if run.baseline else {}
    keys_used = {part["key"] for row in run.baseline for part in row.get("parts", ()) if part["key"]}
    return GapTable(
        rows=tuple(rows),
        outside=(*outside, Outside(REST, rest)),
        wall_ns=wall_ns,
        steps=operators.steps,
        threads=run.threads,
        peak_flops_per_s=peaks.get("peak_flops_per_s"),
        peak_bytes_per_s=peaks.get("peak_bytes_per_s"),
        reference_keys=tuple(sorted(key for key in keys_used if key.endswith("/reference"))),
        busy_load=_busy_load(run),
        disturbance=disturbance,
        later=_count_of_later(run),
    )


def _kind_times(operators: Operators, run: Run) -> dict[LayerPhase, dict[str, int]]:
    """Nanoseconds over all steps by layer and phase, and in these by kind."""
    found: dict[LayerPhase, dict[str, int]] = {}
    if not len(operators.rows):
        return found
    for (layer, phase, kind), per_step in operators.wall_by("layer", "phase", "kind").items():
        times = found.setdefault(_place(run, layer, phase), {})
        times[kind] = times.get(kind, 0) + int(per_step.sum())
    return found


def _place(run: Run, layer: str, phase: str) -> LayerPhase:
    """In inference a copy for a layer is part of its only pass, forward."""
    return layer, FORWARD if phase == COPY_PHASE and layer and not run.is_training else phase


def _gap(
    key: LayerPhase,
    kinds: Mapping[str, int],
    dispatch: Mapping[LayerPhase, int] | None,
    threading_loss: float | None,
    calls: int,
    steps: int,
    base: Mapping[str, Any] | None,
    is_disturbed: bool,
) -> LayerGap:
    auxiliary_ns = sum(ns for kind, ns in kinds.items() if kind in AUXILIARY)
    dispatch_ns = None if dispatch is None else dispatch.get(key, 0)
    kernel_ns = sum(kinds.values()) - auxiliary_ns
    framework_ns = kernel_ns + auxiliary_ns + (dispatch_ns or 0)
    # Only a layer without a kernel for everything it does (a backward pass) has time that kernels do not replace.
    not_covered = WITHOUT_KERNEL if base and base.get("without_kernel") else frozenset()
    known = base or {}
    moved_ns = sum(ns for kind, ns in kinds.items() if kind in TRANSFERS)
    if base is None:
        held_back = transfer(moved_ns, framework_ns)
    else:
        per_step = (framework_ns / steps, moved_ns / steps, None if dispatch_ns is None else dispatch_ns / steps)
        peaks = (base["peak_flops_per_s"], base["peak_bytes_per_s"])
        held_back = bottleneck(
            LayerNumbers(*per_step, calls / steps, base["flops"], base["bytes"], *peaks), is_disturbed
        )
    return LayerGap(
        layer=key[0],
        phase=key[1],
        steps=steps,
        kernel_ns=kernel_ns,
        auxiliary_ns=auxiliary_ns,
        dispatch_ns=dispatch_ns,
        threading_loss_ns=None if threading_loss is None else round(threading_loss * kernel_ns),
        by_kind_ns=kinds,
        calls=calls,
        covered_ns=framework_ns - sum(ns for kind, ns in kinds.items() if kind in not_covered),
        bottleneck=held_back,
        **{name: known.get(name) for name in _OF_BASELINE},
    )


def _outside(
    kinds: Mapping[LayerPhase, Mapping[str, int]],
    in_layers: set[LayerPhase],
    baseline: Mapping[LayerPhase, Mapping[str, Any]],
) -> list[Outside]:
    """Loss, optimiser, and operators of no layer; each only if there is any."""
    found: dict[str, int] = {}
    for (layer, phase), times in kinds.items():
        if (layer, phase) in in_layers:
            continue
        for kind, ns in times.items():
            is_loss = kind in (LOSS, SOFTMAX) and layer == NO_LAYER
            name = OPTIMISER if phase == OPTIMISER else "loss" if is_loss else f"{phase or 'operators'}, no layer"
            found[name] = found.get(name, 0) + ns
    places = {"loss": ((NO_LAYER, FORWARD), (NO_LAYER, BACKWARD)), OPTIMISER: ((NO_LAYER, OPTIMISER),)}
    names = [*places, *sorted(found.keys() - places.keys())]
    return [
        Outside(
            name,
            found[name],
            _sum(baseline, places.get(name, ()), "bound_ns"),
            _sum(baseline, places.get(name, ()), "native_ns"),
        )
        for name in names
        if name in found
    ]


def _busy_load(run: Run) -> float | None:
    loads = [part.get("load", 0.0) for row in run.baseline for part in row.get("parts", ())]
    highest, cpus = max(loads, default=0.0), run.environment.get("cpus_usable") or []
    return highest if cpus and highest > BUSY_LOAD * len(cpus) else None


def _count_of_later(run: Run) -> int:
    parts = [part for row in run.baseline for part in row.get("parts", ()) if LATER in part.get("failed", {})]
    return len({json.dumps(part.get("spec"), sort_keys=True) for part in parts})


def _sum(baseline: Mapping[LayerPhase, Mapping[str, Any]], keys: Sequence[LayerPhase], name: str) -> float | None:
    """Of a number that all of these rows have."""
    values = [baseline[key].get(name) for key in keys if key in baseline]
    return None if not values or None in values else float(sum(value for value in values if value is not None))
