"""What a folder of results holds: cells in, numbers of those that were measured and reasons of the others out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.capture.run import Run
from profkit.errors import ProfkitError
from profkit.studies.declaration import Study
from profkit.studies.folder import ResultsFolder
from profkit.studies.numbers import CellNumbers, cell_numbers
from profkit.studies.plan import BASELINE, LEARN, MEASURE, StudyCell
from profkit.studies.statuses import DIVERGED, FAILED, OK, SKIPPED, SWAPPED
from profkit.studies.summary import Failure, Summary, TrainingResult, summarise


@dataclass(frozen=True)
class Results:
    """All cells of the plan that have been run."""

    numbers: Sequence[CellNumbers]
    failures: Sequence[Failure]
    learned: dict[str, TrainingResult]
    """By variant."""

    environments: Sequence[Mapping[str, Any]] = ()

    def summaries(self, study: Study, threads: int) -> list[Summary]:
        """Of each sweep, with the cells that are its own."""
        return [self.summary(part, threads) for part in study.parts()]

    def summary(self, study: Study, threads: int) -> Summary:
        """Of a study that has one sweep."""
        names = {variant.name for variant in study.variants}
        numbers = [cell for cell in self.numbers if cell.variant in names]
        failures = [failure for failure in self.failures if failure.variant in names]
        return summarise(study, numbers, failures, self.learned, threads, self.environments)


def read_results(cells: Sequence[StudyCell], folder: ResultsFolder) -> Results:
    """Read every finished cell; one whose file cannot be used is a failure, and the others count."""
    outcomes = {cell.variant.name: folder.outcome(cell) for cell in cells if cell.kind == BASELINE}
    baselines = {name: outcome.baseline for name, outcome in outcomes.items() if outcome is not None}
    numbers: list[CellNumbers] = []
    failures: list[Failure] = []
    learned: dict[str, TrainingResult] = {}
    for cell in cells:
        if cell.skipped:
            failures.append(
                Failure(cell.variant.name, cell.kind, cell.runner.key, cell.repetition, SKIPPED, cell.skipped)
            )
            continue
        outcome = folder.outcome(cell)
        if outcome is None:
            continue
        name, framework = cell.variant.name, cell.runner.key
        status, reason = outcome.status, outcome.reason
        if cell.kind == LEARN:
            learned[name] = _learned(cell, folder, status, reason)
            status, reason = learned[name].status, learned[name].reason
        if status == OK and cell.kind == MEASURE:
            try:
                capture = folder.capture(cell)
                numbers.append(cell_numbers(name, framework, cell.repetition, capture, baselines.get(name, ())))
            except ProfkitError as error:
                status, reason = FAILED, str(error)
        if status == SWAPPED:
            reason += _step_words(cell, folder)
        if status != OK:
            failures.append(Failure(name, cell.kind, framework, cell.repetition, status, reason))
    return Results(numbers, failures, learned, folder.environments())


def _step_words(cell: StudyCell, folder: ResultsFolder) -> str:
    """The step of a cell whose numbers are in no table."""
    try:
        steps = folder.capture(cell).step_ns
    except ProfkitError:
        return ""
    return f"; a step took {statistics.median(steps) / 1e6:.3g} ms" if steps else ""


def _learned(cell: StudyCell, folder: ResultsFolder, status: str, reason: str) -> TrainingResult:
    if status != OK:
        return TrainingResult(status, reason, cell.runner.key)
    try:
        capture = folder.capture(cell)
    except ProfkitError as error:
        return TrainingResult(FAILED, str(error), cell.runner.key)
    return learned_of(capture, cell.runner.key)


def learned_of(capture: Run, framework: str) -> TrainingResult:
    learning = capture.learning
    losses = learning.get("losses", [])
    first_bad = next((step for step, loss in enumerate(losses, start=1) if not math.isfinite(loss)), None)
    if first_bad is not None:  # what it predicts then is not the precision of this network
        reason = f"the loss was {losses[first_bad - 1]} after {first_bad} steps: a lower learning_rate may help"
        return TrainingResult(DIVERGED, reason, framework)
    error = learning.get("test_error")
    return TrainingResult(
        OK,
        framework=framework,
        steps=len(losses),
        seconds=float(learning.get("seconds", 0.0)),
        last_loss=losses[-1] if losses else None,
        precision_percent=100.0 * (1.0 - error) if error is not None else None,
        tested=int(learning.get("test_count", 0)),
        data=capture.data,
    )
