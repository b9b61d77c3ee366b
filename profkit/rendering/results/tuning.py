"""Outcomes of the tuner as tables and as JSON in the schema profkit.tuning/1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profkit.capture.output_files import write_atomically
from profkit.measurement.result import finite_numbers
from profkit.measurement.tuner.search import SCREENING, STAGES, Trial, TuningOutcome, TuningTask
from profkit.ops.keys import parts_of
from profkit.rendering.names import spec_text
from profkit.rendering.quantities import plural, ratio_interval_text, time_text
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.tables.table import Item, Items, Line, Table, columns_of

SCHEMA = "profkit.tuning/1"


def outcome_table(outcome: TuningOutcome) -> Table:
    """The trials of one kernel, the last stage first, and what was chosen."""
    task = outcome.task
    late = [trial for trial in outcome.trials if trial.stage != SCREENING]
    finalists = [trial.tuning for trial in late]
    others = [trial for trial in outcome.trials if trial.stage == SCREENING and trial.tuning not in finalists]
    shown = [*late, *_without_repeats(others)]
    # The last stage first, in each the fastest first.
    measured = [trial for trial in shown if trial.row.status == "ok"]
    measured.sort(key=lambda trial: (-STAGES.index(trial.stage), -(trial.row.ratio or 0.0)))
    names, texts = ("sizes", "stage", "time", "ratio", "verdict"), ("sizes", "stage", "verdict")
    columns = columns_of(names, texts, ratio="default / this", verdict="")
    lines = [
        Line(
            (
                trial.sizes,
                trial.stage,
                time_text(trial.row.median_ns),
                ratio_interval_text(trial.row.ratio, trial.row.ratio_low, trial.row.ratio_high),
                "chosen" if trial.row is outcome.row_of(outcome.chosen) else trial.row.verdict,
            ),
            trial.row.verdict,
        )
        for trial in measured
    ]
    failed = [Item(trial.sizes, trial.row.status, trial.row.reason) for trial in shown if trial.row.status != "ok"]
    conclusion = f"chosen: {outcome.chosen_sizes}, {outcome.reason}" if outcome.chosen else outcome.reason
    return Table(_title(task), _facts(task), columns, lines, failed, [conclusion])


def task_items(task: TuningTask) -> Items:
    """What would be tried: one line per tunable."""
    return Items(
        [
            Item(item.name, f"[{item.default}]", ", ".join(str(value) for value in item.candidates) or "nothing else")
            for item in task.tunables
        ]
    )


def task_title(task: TuningTask) -> str:
    return f"{_title(task)}; {_facts(task)[0]}"


def write_tuning(outcomes: Sequence[TuningOutcome], environment: Mapping[str, Any], path: str | Path) -> None:
    """Write the JSON file whole or not at all."""
    record = {
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
    write_atomically(path, render_json(finite_numbers(record)))


def _without_repeats(trials: Sequence[Trial]) -> list[Trial]:
    """The default takes part in every heat; it is shown once."""
    return [trial for i, trial in enumerate(trials) if trial.tuning not in [other.tuning for other in trials[i + 1 :]]]


def _title(task: TuningTask) -> str:
    return f"{task.key}: {spec_text(task.spec)}"


def _facts(task: TuningTask) -> tuple[str, ...]:
    default = task.default_sizes
    if parts_of(task.key).device != "cpu":
        return (f"default {default}",)
    return (f"{plural(task.threads, 'thread')}; default {default}",)
