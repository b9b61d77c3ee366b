"""Which layers of a network are worth work, and what that would give: a Summary with its gaps in, facts out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profkit.studies.numbers import Gap
from profkit.studies.plan import NATIVE
from profkit.studies.summary import Summary, VariantRow

WORTH = 0.02
"""A saving below this share of the step is not worth naming."""


@dataclass(frozen=True)
class Opportunity:
    """All layers of one kind in the base, per step: what they take, and what is known to be possible here."""

    framework: str
    kind: str
    layers: tuple[str, ...]
    time_ns: float
    step_ns: float
    """Of the recorded step that these are part of."""
    native_ns: float | None
    bound_ns: float | None
    saving_ns: float | None
    """By how much the step would fall with profkit's fastest kernels; negative: they are slower."""
    auxiliary_ns: float
    dispatch_ns: float | None
    threading_loss_ns: float | None
    bottleneck: str | None
    """Of the layer that takes longest."""
    why: str | None
    is_reference: bool
    """Whether one of profkit's kernels in it is a reference kernel, not tuned."""

    @property
    def is_worth_it(self) -> bool:
        """Whether profkit's kernels would take at least two percent off the step; `native` is these kernels already."""
        if self.saving_ns is None or self.framework == NATIVE.framework:
            return False
        return self.saving_ns >= WORTH * self.step_ns


def opportunities(summary: Summary) -> list[Opportunity]:
    """Per framework and kind of layer, what saves most first; of the base."""
    found = []
    for row in summary.measured(summary.study.base):
        kinds = dict.fromkeys(gap.kind for gap in row.gaps if gap.native_ns is not None or gap.bound_ns is not None)
        mine = [_opportunity(row, kind) for kind in kinds]
        found += sorted(mine, key=lambda each: -(each.saving_ns if each.saving_ns is not None else -each.time_ns))
    return found


def _opportunity(row: VariantRow, kind: str) -> Opportunity:
    gaps = [gap for gap in row.gaps if gap.kind == kind]
    longest = max(gaps, key=lambda gap: gap.time_ns)
    return Opportunity(
        framework=row.framework,
        kind=kind,
        layers=tuple(dict.fromkeys(gap.layer for gap in gaps)),
        time_ns=sum(gap.time_ns for gap in gaps),
        step_ns=row.gaps_step_ns or 0.0,
        native_ns=_sum(gaps, "native_ns"),
        bound_ns=_sum(gaps, "bound_ns"),
        saving_ns=_sum(gaps, "native_saving_ns"),
        auxiliary_ns=sum(gap.auxiliary_ns for gap in gaps),
        dispatch_ns=_sum(gaps, "dispatch_ns"),
        threading_loss_ns=_sum(gaps, "threading_loss_ns"),
        bottleneck=longest.bottleneck,
        why=longest.why,
        # The first kernel of a layer does its main work; a bias may come after it.
        is_reference=any((gap.native_key or "").split(" + ")[0].endswith("reference") for gap in gaps),
    )


def _sum(gaps: Sequence[Gap], name: str) -> float | None:
    """None when any is not known: a part of a sum would look like all of it."""
    values = [getattr(gap, name) for gap in gaps]
    total: float | None = None if None in values else sum(values)
    return total
