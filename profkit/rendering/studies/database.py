"""A study's numbers as flat rows: for CSV files, and as tables of a DuckDB file where that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError
from profkit.rendering.sql.database import add_table, put_in_place, scratch_folder
from profkit.rendering.tables import csv_file
from profkit.studies.plan import MEASURE
from profkit.studies.results import Results
from profkit.studies.summary import Summary

INSTALL = 'results.duckdb needs DuckDB; type: pip install "profkit[query]"'
Rows = Sequence[Mapping[str, Any]]
_CELLS = {
    "variant": "varchar",
    "framework": "varchar",
    "repetition": "integer",
    "status": "varchar",
    "reason": "varchar",
    "step_ns": "double",
    "wall_ns": "double",
    "operators_ns": "double",
    "dispatch_ns": "double",
    "framework_ns": "double",
    "idle_ns": "double",
    "peak_bytes": "double",
    "unrecorded_ratio": "double",
    "load": "double",
}
_OPERATORS = {
    "variant": "varchar",
    "framework": "varchar",
    "repetition": "integer",
    "by": "varchar",
    "name": "varchar",
    "calls": "double",
    "own_ns": "double",
    "requested_bytes": "double",
    "temporary_bytes": "double",
    "flops": "double",
}
_VARIANTS = {
    "variant": "varchar",
    "parameters": "bigint",
    "multiply_adds": "bigint",
    "flops": "bigint",
    "focus_flops": "bigint",
    "focus_output_bytes": "bigint",
    "learned_steps": "integer",
    "precision_percent": "double",
    "published_focus_ms": "double",
    "published_focus_percent": "double",
    "published_focus_bytes": "double",
    "published_total_ms": "double",
    "published_precision_percent": "double",
}
TABLES: Mapping[str, Mapping[str, str]] = {"cells": _CELLS, "operators": _OPERATORS, "variants": _VARIANTS}


def table_rows(results: Results, summary: Summary) -> dict[str, Rows]:
    """Every table's rows; a field that a row lacks is not known."""
    return {"cells": _cells(results), "operators": _operators(results), "variants": _variants(summary)}


def render_csv(table: str, rows: Rows) -> str:
    """One line per row; what is not known is an empty field."""
    names = list(TABLES[table])
    return csv_file.render_csv(names, ([row.get(name) for name in names] for row in rows))


def can_write_database() -> bool:
    """Whether DuckDB is there."""
    return importlib.util.find_spec("duckdb") is not None


def write_database(path: Path, tables: Mapping[str, Rows]) -> None:
    """Write the file whole or not at all."""
    import duckdb

    with scratch_folder(path.parent) as scratch:
        unfinished = Path(scratch) / path.name
        try:
            with duckdb.connect(str(unfinished)) as database:
                for name, rows in tables.items():
                    columns = TABLES[name]
                    add_table(database, name, columns, [tuple(row.get(column) for column in columns) for row in rows])
        except duckdb.Error as error:
            raise ProfkitError(f"could not write {path}: {error}") from error
        put_in_place(unfinished, str(path))


def _cells(results: Results) -> Rows:
    measured = [
        {
            **{name: getattr(cell, name, None) for name in _CELLS},
            **{f"{name}_ns": value for name, value in cell.remainders.items()},
            "status": "ok",
            "unrecorded_ratio": cell.null,
        }
        for cell in results.numbers
    ]
    return [*measured, *(asdict(failure) for failure in results.failures if failure.kind == MEASURE)]


def _operators(results: Results) -> Rows:
    return [
        {"variant": cell.variant, "framework": cell.framework, "repetition": cell.repetition, "by": by, **asdict(row)}
        for cell in results.numbers
        for by, rows in (("kind", cell.kinds), ("type", cell.types))
        for row in rows
    ]


def _variants(summary: Summary) -> Rows:
    rows = []
    for facts in summary.variants:
        row = {"variant": facts.name, **{name: getattr(facts, name, None) for name in _VARIANTS if name != "variant"}}
        if facts.learned is not None:
            row |= {"learned_steps": facts.learned.steps, "precision_percent": facts.learned.precision_percent}
        if facts.published is not None:
            row |= {f"published_{name}": value for name, value in asdict(facts.published).items()}
        rows.append(row)
    return rows
