"""The largest batch as a table of its evidence, and as JSON in the schema profkit.max-batch/1."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from profkit.measurement.largest_batch.fit import MemoryFit
from profkit.measurement.largest_batch.request import OK, OOM, PLAIN, MaxBatch, Trial
from profkit.measurement.largest_batch.trial import DATA_FACTOR
from profkit.measurement.largest_batch.watch import LOOK_S
from profkit.ops.networks import network_from_dict
from profkit.rendering.quantities import ABSENT, bytes_text, count_text, plural
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.tables.table import Item, Line, Table, TableColumn

SCHEMA = "profkit.max-batch/1"
MOST_PIECES = 4
"""Shown of a line with breakpoints."""
_COLUMNS = (
    TableColumn("batch", "batch"),
    TableColumn("role", "role", is_text=True),
    TableColumn("allocator_predicted_bytes", "predicted"),
    TableColumn("allocator_bytes", "allocator"),
    TableColumn("allocator_error", "error"),
    TableColumn("growth_predicted_bytes", "predicted"),
    TableColumn("growth_bytes", "growth"),
    TableColumn("growth_error", "error"),
    TableColumn("resident_bytes", "resident"),
    TableColumn("margin_bytes", "margin"),
    TableColumn("status", "outcome", is_text=True),
)


def max_batch_table(found: MaxBatch) -> Table:
    """What was found, then each process: predicted, measured, and what was left of the limit."""
    records = [record_of(found, trial) for trial in found.trials]
    return Table(
        answer(found),
        _facts(found),
        _COLUMNS,
        [_line(record) for record in records],
        [Item(f"batch {trial.batch:,}", trial.status, trial.reason) for trial in found.trials if trial.status != OK],
        _notes(found),
        records=lambda: records,
    )


def answer(found: MaxBatch) -> str:
    """The result in a sentence."""
    network = found.network["network"]
    what = "trains" if found.is_training else "infers"
    if found.largest is None:
        return f"{network}: no batch was found that {what}: {found.status}, {found.reason or 'nothing was measured'}"
    ended = f" ({found.status}: {found.reason})" if found.status != OK else ""
    above = f"; {found.too_large:,} does not fit" if found.too_large else "" if ended else "; no larger one was tried"
    return f"{network}: {found.largest:,} is the largest batch that {what}{heap_words(found)}{above}{ended}"


def heap_words(found: MaxBatch) -> str:
    """How the C library was set, with which the answer holds."""
    return "".join(f" with {name}={value}" for name, value in found.heap.items())


def record_of(found: MaxBatch, trial: Trial) -> dict[str, Any]:
    """Of one process: numbers, None where one is not known."""
    fit = None if trial.role == PLAIN else found.fit
    allocator = None if fit is None or fit.allocator is None else fit.allocator.at(trial.batch)
    growth = None if fit is None else fit.growth(trial.batch)
    resident = trial.resident_bytes
    return {
        "batch": trial.batch,
        "role": trial.role,
        "allocator_predicted_bytes": _whole(allocator),
        "allocator_bytes": trial.allocator_bytes,
        "allocator_error": relative_error(allocator, trial.allocator_bytes),
        "growth_predicted_bytes": _whole(growth),
        "growth_bytes": trial.growth_bytes,
        "growth_error": relative_error(growth, trial.growth_bytes),
        "resident_bytes": resident,
        "margin_bytes": None if resident is None else found.limit_bytes - resident,
        "status": trial.status,
        "reason": trial.reason,
    }


def relative_error(predicted: float | None, measured: int | None) -> float | None:
    """Above 0: more was predicted than was taken."""
    return None if predicted is None or not measured else predicted / measured - 1.0


def render_max_batch_json(found: MaxBatch) -> str:
    content = asdict(found) | {
        "schema": SCHEMA,
        "trials": [
            record_of(found, trial) | {"base_bytes": trial.base_bytes} for trial in found.trials
        ],
    }  # fmt: skip
    return render_json({"schema": content.pop("schema"), **content})


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _line(record: dict[str, Any]) -> Line:
    texts = [f"{record['batch']:,}", record["role"]]
    for column in _COLUMNS[2:-1]:
        value = record[column.name]
        texts.append(_percent(value) if column.name.endswith("_error") else bytes_text(value))
    return Line((*texts, record["status"]))


def _percent(value: float | None) -> str:
    return ABSENT if value is None else f"{100.0 * value:+.1f}%"


def _facts(found: MaxBatch) -> list[str]:
    network = network_from_dict(found.network)
    words = {name: word for name, word in network.words().items() if name != "batch"}
    training = f", {found.training['optimizer']}" if found.training else ""
    version = found.versions.get("version", "")
    how = "training" if found.is_training else "inference"
    run = (
        f"{found.framework} {version}".rstrip() + f" ({found.mode}), {plural(found.threads, 'thread')}, {how}{training}"
    )
    guard = f"processes are looked at every {1e3 * LOOK_S:.0f} ms and ended above the limit; the kernel refuses data "
    guard += f"beyond {DATA_FACTOR} times that, and ends them first when memory runs out"
    return [
        ", ".join(f"{name.replace('_', '-')} {word}" for name, word in words.items()),
        f"{run}; {found.steps} steps per process",
        f"limit {bytes_text(found.limit_bytes)} resident ({found.limit_from}); {guard}",
    ]


def _notes(found: MaxBatch) -> list[str]:
    notes = list(found.notes)
    for trial in found.with_role(PLAIN):
        said = f"did not fit ({trial.reason})" if trial.status == OOM else f"ended: {trial.status}, {trial.reason}"
        said = f"took {bytes_text(trial.resident_bytes)}" if trial.status == OK else said
        notes.append(f"plain: without{heap_words(found).removeprefix(' with')}, batch {trial.batch:,} {said}")
    if found.predicted is not None:
        notes.insert(0, f"predicted from the small batches: {found.predicted:,}")
    return notes + (_fit_notes(found.fit) if found.fit else [])


def _fit_notes(fit: MemoryFit) -> list[str]:
    notes = [f"resident = {bytes_text(fit.base_bytes)} before the model + allocator + {_words(fit.rest)}"]
    if fit.allocator is None:
        return [
            f"resident = {bytes_text(fit.base_bytes)} before the model + {_words(fit.rest)}",
            "this framework does not tell what it allocates: the line is fitted to resident memory alone",
        ]
    pieces = fit.allocator.pieces
    notes.append(f"allocator: {fit.allocator.how}")
    for piece in pieces[-MOST_PIECES:]:
        notes.append(
            f"from batch {count_text(piece.first)}: {_words(piece.line)}, at {piece.where or 'an unknown place'}"
        )
    if len(pieces) > MOST_PIECES:
        notes.append(f"{plural(len(pieces) - MOST_PIECES, 'breakpoint')} below batch {pieces[-MOST_PIECES].first:,}")
    return notes


def _words(line: Any) -> str:
    return f"{bytes_text(line.fixed)} + batch x {bytes_text(line.slope)}"
