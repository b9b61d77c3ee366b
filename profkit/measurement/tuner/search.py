"""Sizes of a native kernel, measured against its own default: what to try, the trials, the choice.

Every trial is a worker of its own, verified against the float64 reference before and after it is timed, and
interleaved with the default; one that is wrong, crashes or takes too much memory costs itself only. Values are
first tried one by one; the best ones and their combinations then meet the default in a final with fresh samples. The
winner, which among several may have won by chance, is measured once more against the default alone, and is chosen only
if it is faster beyond the margin both times.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from profkit.frameworks.adapter import Implementation
from profkit.frameworks.native.tuned import Tuning, tuning_text
from profkit.measurement.cell import CellRun, SharedInputs
from profkit.measurement.options import MeasureOptions
from profkit.measurement.progress import ProgressCallback
from profkit.measurement.result import Row
from profkit.measurement.workers.pool import WorkerPool
from profkit.ops.spec import Spec

HEAT = 6
"""Trials measured at a time, beside the default: each holds its own copy of the inputs."""
SCREENING, FINAL, CONFIRMATION = STAGES = ("screening", "final", "confirmation")
SHARES = {SCREENING: 0.45, FINAL: 0.35, CONFIRMATION: 0.2}
"""Of the budget."""


@dataclass(frozen=True)
class Tunable:
    """Something to choose of one kernel: its name, the default and what else may be tried."""

    name: str
    default: int | str
    candidates: Sequence[int | str]


@dataclass(frozen=True)
class TuningTask:
    """One kernel for one spec."""

    key: str
    adapter: str
    spec: Spec
    threads: int
    tunables: Sequence[Tunable]
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the kernel's own implementation (`rounding`)."""

    @property
    def trials(self) -> list[Tuning]:
        """Every value of every tunable, the others at their default."""
        return [{item.name: value} for item in self.tunables for value in item.candidates]

    @property
    def default_sizes(self) -> str:
        """The kernel's own choice, in words."""
        return tuning_text({item.name: item.default for item in self.tunables})


@dataclass(frozen=True)
class Trial:
    """One set of sizes and its row in one of STAGES."""

    tuning: Tuning
    stage: str
    row: Row

    @property
    def sizes(self) -> str:
        """Its sizes in words."""
        return tuning_text(self.tuning) or "default"


@dataclass(frozen=True)
class TuningOutcome:
    """The outcome: the trials, and the chosen sizes; empty sizes keep the default."""

    task: TuningTask
    trials: Sequence[Trial]
    chosen: Tuning
    reason: str
    """Why the default stays, or how much faster the chosen sizes are."""

    @property
    def is_known(self) -> bool:
        """Whether any trial was compared with the default; if none was, not even that the default is best is known."""
        return any(_is_compared(trial) for trial in self.trials)

    @property
    def chosen_sizes(self) -> str:
        """The chosen sizes in words; nothing where the default stays."""
        return tuning_text(self.chosen)

    def row_of(self, tuning: Tuning) -> Row | None:
        """The row of these sizes, {} for the default, from the last time that they were measured."""
        return next((trial.row for trial in reversed(self.trials) if trial.tuning == tuning), None)


def tune_kernel(task: TuningTask, options: MeasureOptions, tell: ProgressCallback) -> TuningOutcome:
    """Measure all trials of a kernel and choose; `options.budget_s` is the sampling time of all together."""
    if not task.trials:
        return TuningOutcome(task, [], {}, "there is nothing to choose for this spec")
    heats = [task.trials[i : i + HEAT] for i in range(0, len(task.trials), HEAT)]
    parts = len(heats) + 2
    runner = _TrialRunner(task)
    trials: list[Trial] = []
    for number, heat in enumerate(heats):
        trials += runner.measure(heat, SCREENING, _share(options, SCREENING, len(heats)), _part(tell, number, parts))
    best = finalists(task, trials)
    if best:
        trials += runner.measure(best, FINAL, _share(options, FINAL), _part(tell, parts - 2, parts))
    outcome = choose(task, trials)
    if not outcome.chosen:
        return outcome
    again = _share(options, CONFIRMATION)
    return confirm(outcome, runner.measure([outcome.chosen], CONFIRMATION, again, _part(tell, parts - 1, parts)))


def finalists(task: TuningTask, trials: Sequence[Trial]) -> list[Tuning]:
    """The best value of each tunable, if it was faster than the default at all, and all their combinations."""
    best: dict[str, tuple[float, Tuning]] = {}
    for trial in trials:
        ratio = trial.row.ratio if trial.row.status == "ok" and trial.tuning else None
        if ratio is None or ratio <= 1.0:
            continue
        name = next(iter(trial.tuning))
        if name not in best or ratio > best[name][0]:
            best[name] = (ratio, trial.tuning)
    singles = [best[item.name][1] for item in task.tunables if item.name in best]
    return [
        {name: value for single in chosen for name, value in single.items()}
        for count in range(1, len(singles) + 1)
        for chosen in itertools.combinations(singles, count)
    ]


def choose(task: TuningTask, trials: Sequence[Trial]) -> TuningOutcome:
    """The fastest of the final that is faster than the default beyond doubt; otherwise the default."""
    measured = [trial for trial in trials if _is_compared(trial)]
    if not measured:
        return TuningOutcome(
            task, trials, {}, "; ".join(["no trial could be compared with the default", *_reasons(trials)])
        )
    final = [trial for trial in measured if trial.stage == FINAL]
    faster = [trial for trial in final if trial.row.verdict == "faster"]
    if faster:
        best = max(faster, key=lambda trial: trial.row.ratio or 0.0)
        return TuningOutcome(task, trials, best.tuning, f"{best.row.ratio:.3f}x as fast as the default")
    if not final:
        return TuningOutcome(task, trials, {}, "the default stays: nothing was faster")
    near = max(final, key=lambda trial: trial.row.ratio or 0.0)
    sizes = near.sizes
    if near.row.verdict == "not resolved":
        unsure = f"whether {sizes} is faster is not resolved; a longer --budget or a quieter machine may resolve it"
        return TuningOutcome(task, trials, {}, f"the default stays: {unsure}")
    return TuningOutcome(task, trials, {}, f"the default stays: {sizes} is within the margin")


def confirm(outcome: TuningOutcome, again: Sequence[Trial]) -> TuningOutcome:
    """The winner of the final stays chosen if it is faster again, against the default alone; otherwise the default."""
    trials = [*outcome.trials, *again]
    row = next((trial.row for trial in again if _is_compared(trial)), None)
    if row is not None and row.verdict == "faster":
        reason = f"{row.ratio:.3f}x as fast as the default when measured again against it alone"
        return replace(outcome, trials=trials, reason=reason)
    if row is not None:
        found = f"{row.ratio:.3f}x when measured again against it alone ({row.verdict})"
    else:
        found = "; ".join(["it could not be compared with it again", *_reasons(again)])
    sizes = f"{outcome.chosen_sizes} was {outcome.reason} in the final"
    return TuningOutcome(outcome.task, trials, {}, f"the default stays: {sizes}, but {found}")


def measure_again(task: TuningTask, tuning: Tuning, options: MeasureOptions, tell: ProgressCallback) -> Row | None:
    """These sizes against the default once more, in new workers and with inputs by `options.seed`: for the bench."""
    trials = _TrialRunner(task).measure([tuning], CONFIRMATION, options, tell)
    return next((trial.row for trial in trials if trial.tuning == tuning), None)


def trial_implementation(task: TuningTask, tuning: Mapping[str, int | str]) -> Implementation:
    """The kernel with these sizes, as a separate implementation; without sizes, the kernel as it is by default."""
    text = tuning_text(tuning)
    key = f"{task.key}@{text.replace(' ', ',')}" if text else task.key
    return Implementation(key, task.adapter, options={**task.options, "kernel": task.key, "tuning": text})


class _TrialRunner:
    """Where the default and some trials are measured together, in new workers each time."""

    def __init__(self, task: TuningTask) -> None:
        self._task = task
        self._problem: SharedInputs | None = None

    def measure(
        self, tunings: Sequence[Tuning], stage: str, options: MeasureOptions, tell: ProgressCallback
    ) -> list[Trial]:
        """Rows of the default and of these trials."""
        task = self._task
        everyone: list[Tuning] = [{}, *tunings]
        implementations = [trial_implementation(task, tuning) for tuning in everyone]
        with contextlib.closing(WorkerPool(replace(options, baseline=task.key), task.threads)) as pool:
            run = CellRun(task.spec, pool, implementations, tell, options.cache[0], problem=self._problem)
            self._problem = run.problem
            run.measure()
            # Without peaks, as rows are compared with each other only. Their advice on --budget would be that of a
            # stage, which has a share of it.
            rows = {row.key: replace(row, next_step="") for row in run.finish({}).rows}
        return [
            Trial(tuning, stage, rows[implementation.key])
            for tuning, implementation in zip(everyone, implementations)
            if implementation.key in rows
        ]


def _is_compared(trial: Trial) -> bool:
    return bool(trial.tuning) and trial.row.status == "ok" and trial.row.ratio is not None


def _reasons(trials: Sequence[Trial]) -> list[str]:
    """Why rows have no time, each reason once."""
    return list(dict.fromkeys(f"{trial.row.status}: {trial.row.reason}" for trial in trials if trial.row.reason))


def _share(options: MeasureOptions, stage: str, parts: int = 1) -> MeasureOptions:
    return replace(options, budget_s=options.budget_s * SHARES[stage] / parts)


def _part(tell: ProgressCallback, number: int, count: int) -> ProgressCallback:
    """Progress of one heat as a part of the whole."""
    return lambda phase, fraction, text: tell(phase, (number + fraction) / count, text)
