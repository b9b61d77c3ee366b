"""The numbers of one finished cell, per step: a capture in, time and bytes by kind and type of operator out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.gaps import LayerGap, layer_gaps
from profkit.attribution.passes import run_usage
from profkit.attribution.usage import Usage
from profkit.capture.run import Run
from profkit.errors import CaptureError
from profkit.measurement.network_times import step_times
from profkit.ops.networks import network_from_dict


@dataclass(frozen=True)
class OperatorRow:
    """One row of a cell's table of operators, mean of the recorded steps. None: not observable."""

    name: str
    calls: float
    own_ns: float
    requested_bytes: float | None = None
    temporary_bytes: float | None = None
    flops: float | None = None


@dataclass(frozen=True)
class Gap:
    """One layer in one phase beside profkit's fastest kernel and the machine's bound, per step. None: not known."""

    layer: str
    kind: str
    """Of the layer: conv2d, matmul, pool2d, lrn, ..."""
    phase: str
    time_ns: float
    kernel_ns: float
    auxiliary_ns: float
    dispatch_ns: float | None
    threading_loss_ns: float | None
    native_ns: float | None
    native_key: str | None
    bound_ns: float | None
    native_saving_ns: float | None
    bottleneck: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class CellNumbers:
    """What the report needs of a cell that was measured."""

    variant: str
    framework: str
    repetition: int
    step_ns: float
    """Median of the steps with nothing recorded."""
    wall_ns: float
    """Mean of the steps recorded for time; kinds + remainders sum to it."""
    kinds: Sequence[OperatorRow]
    types: Sequence[OperatorRow]
    remainders: Mapping[str, float]
    """Dispatch, framework, idle: time in which no operator ran."""
    peak_bytes: float | None = None
    gaps: Sequence[Gap] = ()
    recording: Mapping[str, float] = field(default_factory=dict)
    """Recorded over unrecorded steps by pass, as far as they ran in one process."""
    null: float | None = None
    """Unrecorded over unrecorded steps: the noise floor."""
    load: float | None = None
    """Of the machine when the cell began: processes that wanted to run, mean of a minute."""
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    data: str = ""

    @property
    def operators_ns(self) -> float:
        """All operators together, which shares refer to."""
        return sum(row.own_ns for row in self.kinds)

    def kind(self, name: str) -> OperatorRow | None:
        return next((row for row in self.kinds if row.name == name), None)


def cell_numbers(
    variant: str, framework: str, repetition: int, capture: Run, baseline: Sequence[Mapping[str, Any]] = ()
) -> CellNumbers:
    """The numbers of a capture; `baseline` has the rows of the same variant. CaptureError when it lacks something."""
    if not capture.step_ns:
        raise CaptureError("no steps were timed")
    by_kind, by_type = (mean_of_steps(run_usage(capture, by)) for by in ("kind", "type"))
    times = step_times(capture)
    return CellNumbers(
        variant=variant,
        framework=framework,
        repetition=repetition,
        step_ns=statistics.median(capture.step_ns),
        wall_ns=by_kind.wall_ns,
        kinds=_operators(by_kind),
        types=_operators(by_type),
        remainders={part.name: part.time_ns for part in by_kind.remainders if part.time_ns is not None},
        peak_bytes=by_kind.total_peak_bytes,
        gaps=_gaps(replace(capture, baseline=[dict(row) for row in baseline])) if baseline else (),
        recording={name: ratio.value for name, ratio in times.recording.items()},
        null=times.null.value if times.null else None,
        load=next(iter(capture.environment.get("load") or ()), None),
        versions=capture.versions,
        notes=list(dict.fromkeys((*capture.notes, *by_kind.notes))),
        data=capture.data,
    )


def _operators(usage: Usage) -> list[OperatorRow]:
    return [
        OperatorRow(row.name, row.calls, row.exclusive_ns, row.requested_bytes, row.temporary_bytes, row.flops)
        for row in usage.rows
    ]


def _gaps(capture: Run) -> list[Gap]:
    kinds = {layer.name: layer.kind for layer in network_from_dict(capture.network).layers}
    return [_gap(row, kinds.get(row.layer, "")) for row in layer_gaps(capture).rows]


def _gap(row: LayerGap, kind: str) -> Gap:
    names = ("layer", "phase", "native_ns", "native_key", "bound_ns", "native_saving_ns")
    values: dict[str, Any] = {name: getattr(row, name) for name in names}
    for name in ("kernel_ns", "auxiliary_ns", "dispatch_ns", "threading_loss_ns"):
        total = getattr(row, name)
        values[name] = None if total is None else total / row.steps
    if row.bottleneck:
        values |= {"bottleneck": row.bottleneck.kind, "why": row.bottleneck.why}
    return Gap(kind=kind, time_ns=row.step_ns, **values)
