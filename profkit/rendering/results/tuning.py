"""Outcomes of the tuner as tables and as JSON in the schema profkit.tuning/1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profkit.measurement.result import finite_numbers
from profkit.measurement.tuner.search import SCREENING, STAGES, Trial, TuningOutcome, TuningTask
from profkit.rendering.atomic_write import write_atomically
from profkit.rendering.names import spec_text
from profkit.rendering.quantities import ratio_interval_text, time_text
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.tables.table import Column, Item, Items, Line, Table

SCHEMA = "profkit.tuning/1"


def outcome_table(outcome: TuningOutcome) -> Table:
    """The trials of one kernel, the last stage first, and what was chosen."""
    task = outcome.task
    late = [trial for trial in outcome.trials if trial.stage != SCREENING]
    finalists = [trial.tuning for trial in late]
    others = [trial for trial in outcome.trials if trial.stage == SCREENING and trial.tuning not in finalists]
    shown = [*late, *_without_repeats(others)]
    measured = sorted((trial for trial in shown if trial.row.status == "ok"), key=_rank)
    columns = (
        Column("sizes", "sizes", is_text=True),
        Column("stage", "stage", is_text=True),
        Column("time", "time"),
        Column("ratio", "default / this"),
        Column("verdict", "", is_text=True),
    )
    lines = [
        Line(
            (
                trial.sizes,
                trial.stage,
                time_text(trial.row.median_ns),
                ratio_interval_text(trial.row.ratio, trial.row.ratio_low, trial.row.ratio_high),
                _mark(trial, outcome),
            ),
            trial.row.verdict,
        )
        for trial in measured
    ]
    failed = [Item(trial.sizes, trial.row.status, trial.row.reason) for trial in shown if trial.row.status != "ok"]
    return Table(_title(task), _facts(task), columns, lines, failed, [_conclusion(outcome)])


def task_items(task: TuningTask) -> Items:
    """What would be tried: one line per tunable."""
    return Items(
        [
            Item(item.name, f"[{item.default}]", ", ".join(str(value) for value in item.candidates) or "nothing else")
            for item in task.tunables
        ]
    )


def task_title(task: TuningTask) -> str:
    """One line that names a task."""
    return f"{_title(task)}; {_facts(task)[0]}"


def _record(outcomes: Sequence[TuningOutcome], environment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "environment": environment,
        "outcomes": [
            {
                "key": outcome.task.key,
                "spec": outcome.task.spec.to_dict(),
                "threads": outcome.task.threads,
                "tunables": [asdict(tunable) for tunable in outcome.task.tunables],
                "chosen": outcome.chosen,
                "reason": outcome.reason,
                "trials": [
                    {"tuning": trial.tuning, "stage": trial.stage, "row": asdict(trial.row)} for trial in outcome.trials
                ],
            }
            for outcome in outcomes
        ],
    }


def write_tuning(outcomes: Sequence[TuningOutcome], environment: Mapping[str, Any], path: str | Path) -> None:
    """Write the JSON file whole or not at all."""
    write_atomically(path, render_json(finite_numbers(_record(outcomes, environment))))


def _without_repeats(trials: Sequence[Trial]) -> list[Trial]:
    """The default takes part in every heat; it is shown once."""
    return [trial for i, trial in enumerate(trials) if trial.tuning not in [other.tuning for other in trials[i + 1 :]]]


def _rank(trial: Trial) -> tuple[int, float]:
    """The last stage first, in each the fastest first."""
    return -STAGES.index(trial.stage), -(trial.row.ratio or 0.0)


def _mark(trial: Trial, outcome: TuningOutcome) -> str:
    return "chosen" if trial.row is outcome.row_of(outcome.chosen) else trial.row.verdict


def _title(task: TuningTask) -> str:
    return f"{task.key}: {spec_text(task.spec)}"


def _facts(task: TuningTask) -> tuple[str, ...]:
    default = task.default_sizes
    if task.key.split("/")[2] != "cpu":
        return (f"default {default}",)
    return (f"{task.threads} thread{'' if task.threads == 1 else 's'}; default {default}",)


def _conclusion(outcome: TuningOutcome) -> str:
    if not outcome.chosen:
        return outcome.reason
    return f"chosen: {outcome.chosen_sizes}, {outcome.reason}"
