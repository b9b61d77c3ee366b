"""What to optimise first: a GapTable goes in; a layer, what a step would gain and where the time is lost come out."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.attribution.gaps import GapTable, LayerGap

KERNEL, AUXILIARY, DISPATCH, THREADING = "kernel", "auxiliary", "dispatch", "threading"
WORTH = 0.01
"""A gain below this share of the step is not worth naming."""


@dataclass(frozen=True)
class Advice:
    """One layer to work on; times of one step."""

    gap: LayerGap
    saving_ns: float
    now_ns: float
    """What the whole step takes."""
    cause: str
    cause_ns: float
    """The part of the layer's gap that is largest, and how large."""

    @property
    def then_ns(self) -> float:
        return self.now_ns - self.saving_ns


def best_by_native(table: GapTable) -> Advice | None:
    """The layer from which profkit's own kernels would take most; None when none would take one percent of a step."""
    found = [(row.native_saving_ns, row) for row in table.rows if row.native_saving_ns is not None]
    # What native kernels do not replace stays as it is, and is not part of the difference.
    stays = [(row.framework_ns - row.covered_ns) / row.steps for _, row in found]
    return _largest(table, found, [(row.native_ns or 0.0) + rest for (_, row), rest in zip(found, stays)])


def best_by_bound(table: GapTable) -> Advice | None:
    """The layer that is farthest above the machine's bound."""
    found = [(row.bound_saving_ns, row) for row in table.rows if row.bound_saving_ns is not None]
    return _largest(table, found, [row.bound_ns or 0.0 for _, row in found])


def _largest(table: GapTable, found: list[tuple[float, LayerGap]], least: list[float]) -> Advice | None:
    if not found:
        return None
    place = max(range(len(found)), key=lambda place: found[place][0])
    saving, row = found[place]
    now = table.wall_ns / table.steps
    if saving < WORTH * now:
        return None
    cause, cause_ns = _cause(row, least[place])
    return Advice(row, saving, now, cause, cause_ns)


def _cause(row: LayerGap, least_ns: float) -> tuple[str, float]:
    """Which part of what is above the least possible time is largest."""
    threading = (row.threading_loss_ns or 0) / row.steps
    parts = {
        AUXILIARY: row.auxiliary_ns / row.steps,
        DISPATCH: (row.dispatch_ns or 0) / row.steps,
        THREADING: threading,
        KERNEL: row.kernel_ns / row.steps - threading - least_ns,
    }
    cause = max(parts, key=lambda name: parts[name])
    return cause, parts[cause]
