"""A study's cells as one table: per variant and framework the medians over repetitions, and ratios to the base.

A ratio is taken within a repetition, where both cells ran close to each other, and then the median over repetitions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profkit.attribution.kinds import AUXILIARY, kinds_of
from profkit.data import SYNTHETIC
from profkit.ops.networks import Network, Training
from profkit.ops.networks.work import network_work
from profkit.studies.declaration import Figures, Study, Variant
from profkit.studies.numbers import CellNumbers, Gap, OperatorRow
from profkit.studies.plan import MEASURE

NOT_RUN = "not run"
FEW_STEPS = 1000
"""The quick form trains less than this: what it predicts then is no precision of the network."""
OTHERS_LOAD = 0.7
"""A load this much above a cell's own threads comes from other programs."""
_LAYER_KINDS = {"pool": "pool2d"}
"""What a layer is called that does this kind of operator, where the words differ."""


@dataclass(frozen=True)
class RepetitionRange:
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class VariantRow:
    """One variant in one framework."""

    variant: str
    framework: str
    status: str
    reason: str = ""
    repetitions: int = 0
    step_ns: RepetitionRange | None = None
    operators_ns: float | None = None
    """Sum of the kinds' medians, which shares refer to."""
    focus_ns: RepetitionRange | None = None
    focus_percent: float | None = None
    """Of all operators' time, as tfprof counts it."""
    focus_bytes: float | None = None
    focus_temporary_bytes: float | None = None
    focus_flops_per_s: float | None = None
    peak_bytes: float | None = None
    step_ratio: RepetitionRange | None = None
    focus_ratio: RepetitionRange | None = None
    bytes_ratio: float | None = None
    kinds: Sequence[OperatorRow] = ()
    types: Sequence[OperatorRow] = ()
    remainders: Mapping[str, float] = field(default_factory=dict)
    gaps: Sequence[Gap] = ()
    """Of the repetition whose step time is the median; `gaps_step_ns` is its recorded step."""
    gaps_step_ns: float | None = None
    recording: Mapping[str, float] = field(default_factory=dict)
    """Recorded over unrecorded steps by pass."""
    null: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    steps_ns: Mapping[int, float] = field(default_factory=dict)
    """By repetition: analyses take ratios within one."""

    def types_by_kind(self) -> dict[str, frozenset[str]]:
        """The framework's own operators that did each kind of work."""
        framework = self.framework.split("/")[0]
        found: dict[str, set[str]] = {}
        for row in self.types:
            found.setdefault(kinds_of(framework, row.name, None, None)[0], set()).add(row.name)
        return {kind: frozenset(types) for kind, types in found.items()}

    def kind(self, name: str) -> OperatorRow | None:
        return next((row for row in self.kinds if row.name == name), None)

    @property
    def remainder_ns(self) -> float:
        """Dispatch, framework and idle time of a step."""
        return sum(self.remainders.values())


@dataclass(frozen=True)
class TrainingResult:
    status: str
    reason: str = ""
    framework: str = ""
    steps: int = 0
    seconds: float = 0.0
    last_loss: float | None = None
    precision_percent: float | None = None
    tested: int = 0
    data: str = ""


@dataclass(frozen=True)
class VariantFacts:
    """What is known of a variant without measuring, what it learned, and what was published about it."""

    name: str
    changes: Mapping[str, Any]
    parameters: int
    multiply_adds: int
    """Of one image, convolutions and dense layers."""
    flops: int
    """Of a step, all operators, by formula."""
    focus_flops: int
    focus_output_bytes: int
    """What the focus operator must at least ask for: its results, in float32."""
    learned: TrainingResult | None = None
    published: Figures | None = None


@dataclass(frozen=True)
class Failure:
    variant: str
    kind: str
    """Of the cell: measure, learn, baseline."""
    framework: str
    repetition: int
    status: str
    reason: str


@dataclass(frozen=True)
class Summary:
    """All rows; the study's order of variants and frameworks."""

    study: Study
    focus: str
    data: str
    rows: Sequence[VariantRow]
    variants: Sequence[VariantFacts]
    failures: Sequence[Failure] = ()
    threads: int | None = None
    environments: Sequence[Mapping[str, Any]] = ()
    """Of every run that worked in the folder."""
    highest_load: float | None = None
    """Of the machine when a cell began."""

    def row(self, variant: str, framework: str) -> VariantRow | None:
        """The measured row, None when nothing was measured."""
        found = (row for row in self.rows if (row.variant, row.framework) == (variant, framework))
        return next((row for row in found if row.status == "ok"), None)

    def measured(self, variant: str) -> list[VariantRow]:
        """Its measured rows, in the study's order of frameworks."""
        rows = [self.row(variant, runner.key) for runner in self.study.runners]
        return [row for row in rows if row is not None]

    def facts(self, variant: str) -> VariantFacts:
        return next(facts for facts in self.variants if facts.name == variant)

    @property
    def base(self) -> VariantFacts:
        return self.facts(self.study.base)

    @property
    def is_synthetic(self) -> bool:
        """Whether precision says nothing about the real task."""
        return self.data.startswith(SYNTHETIC)

    @property
    def is_busy(self) -> bool:
        """Whether more wanted to run than profkit's own threads explain."""
        if self.highest_load is None or self.threads is None:
            return False
        return self.highest_load > self.threads + OTHERS_LOAD

    def frameworks(self) -> list[str]:
        """Those with a measured row."""
        measured = {row.framework for row in self.rows if row.status == "ok"}
        return [runner.key for runner in self.study.runners if runner.key in measured]


def summarise(
    study: Study,
    cells: Sequence[CellNumbers],
    failures: Sequence[Failure],
    learned: Mapping[str, TrainingResult],
    threads: int | None = None,
    environments: Sequence[Mapping[str, Any]] = (),
) -> Summary:
    """Join what the cells gave; what has no cell yet is `not run`."""
    focus = study.focus or _largest_kind(cells)
    rows = [
        _row(study, focus, variant, runner.key, cells, failures)
        for variant in study.variants
        for runner in study.runners
    ]
    facts = [_facts(study, focus, variant, learned.get(variant.name)) for variant in study.variants]
    data = next((cell.data for cell in cells if cell.data), "")
    loads = [cell.load for cell in cells if cell.load is not None]
    return Summary(study, focus, data, rows, facts, failures, threads, environments, max(loads, default=None))


def focus_flops(network: Network, focus: str, is_training: bool) -> int:
    """Flops of a step that are this kind's, by formula."""
    work = network_work(network, Training() if is_training else None)
    return sum(part.flops for (_, _, kind), part in work.items() if kind == focus)


def focus_output_bytes(network: Network, focus: str) -> int:
    """Size of the results of this kind's layers, in float32."""
    kind = _LAYER_KINDS.get(focus, focus)
    return sum(4 * math.prod(layer.output_shape) for layer in network.layers if layer.kind == kind)


def spread(values: Sequence[float]) -> RepetitionRange | None:
    """Median and range; None of nothing."""
    return RepetitionRange(statistics.median(values), min(values), max(values)) if values else None


def _facts(study: Study, focus: str, variant: Variant, learned: TrainingResult | None) -> VariantFacts:
    network = variant.network
    if study.is_quick and learned is not None and learned.steps < FEW_STEPS:
        learned = replace(learned, precision_percent=None)
    return VariantFacts(
        name=variant.name,
        changes=variant.changes,
        parameters=network.parameter_count(),
        multiply_adds=network.multiply_adds(),
        flops=sum(
            part.flops for part in network_work(network, Training() if variant.setting.training else None).values()
        ),
        focus_flops=focus_flops(network, focus, variant.setting.training),
        focus_output_bytes=focus_output_bytes(network, focus),
        learned=learned,
        published=study.published.figures.get(variant.name) if study.published else None,
    )


def _row(
    study: Study,
    focus: str,
    variant: Variant,
    framework: str,
    cells: Sequence[CellNumbers],
    failures: Sequence[Failure],
) -> VariantRow:
    mine = [cell for cell in cells if (cell.variant, cell.framework) == (variant.name, framework)]
    if not mine:
        key = (MEASURE, variant.name, framework)
        failed = [each for each in failures if (each.kind, each.variant, each.framework) == key]
        status, reason = (failed[-1].status, failed[-1].reason) if failed else (NOT_RUN, "")
        return VariantRow(variant.name, framework, status, reason)
    base = {cell.repetition: cell for cell in cells if (cell.variant, cell.framework) == (study.base, framework)}
    focus_ns = spread([_focus_ns(cell, focus) for cell in mine])
    flops = focus_flops(variant.network, focus, variant.setting.training)
    kinds = _medians([cell.kinds for cell in mine])
    operators_ns = sum(row.own_ns for row in kinds)
    middle = sorted(mine, key=lambda cell: cell.step_ns)[len(mine) // 2]
    row = next((row for row in kinds if row.name == focus), None)
    return VariantRow(
        variant=variant.name,
        framework=framework,
        status="ok",
        repetitions=len(mine),
        step_ns=spread([cell.step_ns for cell in mine]),
        operators_ns=operators_ns,
        focus_ns=focus_ns,
        focus_percent=100.0 * (row.own_ns if row else 0.0) / operators_ns if operators_ns else None,
        focus_bytes=row.requested_bytes if row else None,
        focus_temporary_bytes=row.temporary_bytes if row else None,
        focus_flops_per_s=1e9 * flops / focus_ns.median if focus_ns and focus_ns.median else None,
        peak_bytes=_median([cell.peak_bytes for cell in mine]),
        step_ratio=_ratio(mine, base, lambda cell: cell.step_ns),
        focus_ratio=_ratio(mine, base, lambda cell: _focus_ns(cell, focus)),
        bytes_ratio=_bytes_ratio(mine, base, focus),
        kinds=kinds,
        types=_medians([cell.types for cell in mine]),
        remainders={
            name: statistics.median(cell.remainders.get(name, 0.0) for cell in mine)
            for name in dict.fromkeys(name for cell in mine for name in cell.remainders)
        },
        gaps=middle.gaps,
        gaps_step_ns=middle.wall_ns,
        recording={name: _median([cell.recording.get(name) for cell in mine]) or 0.0 for name in middle.recording},
        null=_median([cell.null for cell in mine]),
        versions=mine[0].versions,
        notes=mine[0].notes,
        steps_ns={cell.repetition: cell.step_ns for cell in mine},
    )


def _ratio(
    cells: Sequence[CellNumbers], base: Mapping[int, CellNumbers], value: Callable[[CellNumbers], float]
) -> RepetitionRange | None:
    pairs = [(cell, base[cell.repetition]) for cell in cells if cell.repetition in base]
    return spread([value(cell) / value(other) for cell, other in pairs if value(other) > 0])


def _bytes_ratio(cells: Sequence[CellNumbers], base: Mapping[int, CellNumbers], focus: str) -> float | None:
    ratios = []
    for cell in cells:
        own, other = cell.kind(focus), base[cell.repetition].kind(focus) if cell.repetition in base else None
        if own and other and own.requested_bytes is not None and other.requested_bytes:
            ratios.append(own.requested_bytes / other.requested_bytes)
    return _median(ratios)


def _focus_ns(cell: CellNumbers, focus: str) -> float:
    row = cell.kind(focus)
    return row.own_ns if row else 0.0


def _medians(tables: Sequence[Sequence[OperatorRow]]) -> list[OperatorRow]:
    """Rows of the same name as one, the longest first; a row that a repetition lacks counts as 0 there."""
    names = dict.fromkeys(row.name for table in tables for row in table)
    found = {name: [next((row for row in table if row.name == name), None) for table in tables] for name in names}
    rows = [
        OperatorRow(
            name,
            statistics.median(row.calls if row else 0.0 for row in rows),
            statistics.median(row.own_ns if row else 0.0 for row in rows),
            _median([row.requested_bytes if row else None for row in rows]),
            _median([row.temporary_bytes if row else None for row in rows]),
            _median([row.flops if row else None for row in rows]),
        )
        for name, rows in found.items()
    ]
    return sorted(rows, key=lambda row: -row.own_ns)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _largest_kind(cells: Sequence[CellNumbers]) -> str:
    """The kind that took most time over all cells, moving and making room aside."""
    totals: dict[str, float] = {}
    for cell in cells:
        for row in cell.kinds:
            if row.name not in AUXILIARY:
                totals[row.name] = totals.get(row.name, 0.0) + row.own_ns
    return max(totals, key=lambda name: totals[name]) if totals else ""
