"""Runs a study's cells, one process after another, and keeps each as it ends; a failure costs its cell only."""

from __future__ import annotations

import errno
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profkit.capture.run import Run
from profkit.errors import ProfkitError
from profkit.measurement.baseline import measure_baseline
from profkit.measurement.network_run import InterruptedRun, MessageCallback, NetworkRequest, run_network
from profkit.studies.conditions import StudyConditions
from profkit.studies.folder import CellOutcome, ResultsFolder
from profkit.studies.plan import BASELINE, LEARN, StudyCell, estimate_s
from profkit.studies.statuses import FAILED, MEASURED, OK, OOM, STOPPED, UNAVAILABLE, differences_of, status_of

RunNetwork = Callable[[NetworkRequest, MessageCallback], Run]
MeasureBaseline = Callable[..., list[dict[str, Any]]]
ALWAYS_AGAIN = (STOPPED, UNAVAILABLE)
"""Tried again by the same command: the user may have installed what was missing. Other failures only when asked."""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class StudyProgress:
    """Where a run is; `outcome` is set when the cell has just ended."""

    number: int
    """Of the cell, from 1, among those of this run."""
    cells: int
    cell: StudyCell
    text: str
    left_s: float
    """Estimate for this cell and all after it."""
    outcome: CellOutcome | None = None
    step_ns: float | None = None


StudyWatcher = Callable[[StudyProgress], None]


@dataclass(frozen=True)
class CellRunners:
    """How cells are run; tests put their own."""

    run: RunNetwork = run_network
    baseline: MeasureBaseline = measure_baseline
    clock: Callable[[], float] = time.monotonic


@dataclass
class RunReport:
    """How a run ended; which cells it ran, or left for another run."""

    ran: list[CellOutcome] = field(default_factory=list)
    left: int = 0
    is_interrupted: bool = False
    is_out_of_budget: bool = False


def cells_to_run(cells: Sequence[StudyCell], folder: ResultsFolder, retries: bool) -> list[StudyCell]:
    """Those without a result, or whose file is gone or cut short; with `retries` also those that failed."""

    def is_due(cell: StudyCell) -> bool:
        if cell.skipped:
            return False
        outcome = folder.outcome(cell)
        if outcome is None or outcome.status in ALWAYS_AGAIN:
            return True
        return not folder.is_whole(cell) if outcome.status == OK else retries

    return [cell for cell in cells if is_due(cell)]


def run_cells(
    cells: Sequence[StudyCell],
    folder: ResultsFolder,
    conditions: StudyConditions,
    budget_s: float | None = None,
    retries: bool = False,
    watch: StudyWatcher = lambda _: None,
    runners: CellRunners | None = None,
) -> RunReport:
    """Run what is missing. Ctrl-C ends the run, not what it measured: the report says so."""
    due = cells_to_run(cells, folder, retries)
    report = RunReport(left=len(due))
    run = _StudyRun(cells, folder, conditions, runners or CellRunners())
    try:
        _run_due(due, run, report, budget_s, watch)
    except KeyboardInterrupt:  # between cells, or while one was kept: it has no status then and will be run again
        report.is_interrupted = True
    return report


def _run_due(
    due: Sequence[StudyCell], run: _StudyRun, report: RunReport, budget_s: float | None, watch: StudyWatcher
) -> None:
    begin = run.now_s()
    for number, cell in enumerate(due, start=1):
        if budget_s is not None and report.ran and run.now_s() - begin + run.estimate_s(cell) > budget_s:
            report.is_out_of_budget = True
            break
        now = StudyProgress(number, len(due), cell, "", sum(map(run.estimate_s, due[number - 1 :])))

        def tell(text: str, now: StudyProgress = now) -> None:
            watch(replace(now, text=text))

        watch(now)
        outcome, step_ns = run.run(cell, tell)
        report.ran.append(outcome)
        if outcome.status == STOPPED:
            report.is_interrupted = True
            break
        report.left -= 1
        left_s = sum(map(run.estimate_s, due[number:]))
        watch(replace(now, left_s=left_s, outcome=outcome, step_ns=step_ns))


class _StudyRun:
    """Runs single cells and learns from them how long others will take."""

    def __init__(
        self, cells: Sequence[StudyCell], folder: ResultsFolder, conditions: StudyConditions, runners: CellRunners
    ) -> None:
        self._folder = folder
        self._conditions = conditions
        self._ways = runners
        self._taken_s: dict[tuple[str, str], list[float]] = {}
        for cell in cells:
            outcome = folder.outcome(cell)
            if outcome is not None:
                self._remember(cell, outcome)

    def now_s(self) -> float:
        return self._ways.clock()

    def estimate_s(self, cell: StudyCell) -> float:
        taken = {key: sum(values) / len(values) for key, values in self._taken_s.items()}
        return estimate_s(cell, self._conditions.study, self._conditions.threads, taken)

    def run(self, cell: StudyCell, tell: MessageCallback) -> tuple[CellOutcome, float | None]:
        """One cell; its outcome and, where there is one, its median step time."""
        begin = self._ways.clock()
        capture: Run | None = None
        rows: list[dict[str, Any]] = []
        status, reason = OK, ""
        try:
            if cell.kind == BASELINE:
                about = self._conditions
                threads, is_training = about.threads_of(cell.variant), cell.variant.setting.training
                training = about.training_of(cell.variant)
                rows = self._ways.baseline(cell.variant.network, threads, is_training, tell=tell, training=training)
            else:
                request = self._conditions.request(cell)
                capture = self._ways.run(request, tell)
                status, reason = status_of(capture)
                if status in MEASURED and (differing := differences_of(request, capture, cell.kind == LEARN)):
                    status, reason = FAILED, f"something else ran than was requested: {'; '.join(differing)}"
        except KeyboardInterrupt as interrupt:
            capture = interrupt.run if isinstance(interrupt, InterruptedRun) else None
            status, reason = STOPPED, "stopped by the user"
        except ProfkitError as error:
            status, reason = FAILED, str(error)
        except MemoryError as error:
            status, reason = OOM, f"profkit itself ran out of memory: {error}"
        except Exception as error:  # a mistake in one framework's code must not cost the others' results
            if isinstance(error, OSError) and error.errno in _DISK_FULL:
                raise ProfkitError(
                    f"{error.filename or tempfile.gettempdir()}: {error.strerror}: the arrays of a cell go there first;"
                    " make room or set TMPDIR, then type the same command again (finished cells are kept)"
                ) from error
            status, reason = FAILED, f"{type(error).__name__}: {error}"
        outcome = CellOutcome(cell.id, status, reason, self._ways.clock() - begin, rows)
        self._folder.keep(cell, outcome, capture)
        self._remember(cell, outcome)
        samples = capture.step_ns if capture is not None else []
        return outcome, statistics.median(samples) if samples else None

    def _remember(self, cell: StudyCell, outcome: CellOutcome) -> None:
        if outcome.status == OK:
            self._taken_s.setdefault((cell.kind, cell.runner.key), []).append(outcome.seconds)


def time_table(
    cells: Sequence[StudyCell], conditions: StudyConditions, folder: ResultsFolder | None
) -> list[tuple[StudyCell, CellOutcome | None, float]]:
    """The plan with what is finished, and an estimate of the seconds that each other cell will take."""
    if folder is None:
        return [(cell, None, estimate_s(cell, conditions.study, conditions.threads, {})) for cell in cells]
    run = _StudyRun(cells, folder, conditions, CellRunners())
    return [(cell, folder.outcome(cell), run.estimate_s(cell)) for cell in cells]
