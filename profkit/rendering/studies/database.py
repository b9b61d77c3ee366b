"""A study's numbers as flat rows: for CSV files, and as tables of a DuckDB file where that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError
from profkit.rendering.sql.database import add_table, folder_beside, put_in_place
from profkit.rendering.tables import csv_file
from profkit.studies.declaration import Figures
from profkit.studies.plan import MEASURE
from profkit.studies.results import Results
from profkit.studies.summary import Summary

INSTALL = 'results.duckdb needs DuckDB; type: pip install "profkit[query]"'
Rows = Sequence[Mapping[str, Any]]
_OF_A_CELL = {"variant": "varchar", "framework": "varchar", "repetition": "integer"}
_TIMES = ("step_ns", "wall_ns", "operators_ns", "dispatch_ns", "framework_ns", "idle_ns")
_CELLS = _OF_A_CELL | {"status": "varchar", "reason": "varchar"}
_CELLS |= dict.fromkeys((*_TIMES, "peak_bytes", "unrecorded_ratio", "load"), "double")
_OPERATORS = _OF_A_CELL | {"by": "varchar", "name": "varchar"}
_OPERATORS |= dict.fromkeys(("calls", "own_ns", "requested_bytes", "temporary_bytes", "flops"), "double")
_BY_FORMULA = ("parameters", "multiply_adds", "flops", "focus_flops", "focus_output_bytes")
_PUBLISHED = [f"published_{item.name}" for item in fields(Figures)]
_VARIANTS = {"variant": "varchar"} | dict.fromkeys(_BY_FORMULA, "bigint") | {"learned_steps": "integer"}
_VARIANTS |= dict.fromkeys(("precision_percent", *_PUBLISHED), "double")
TABLES: Mapping[str, Mapping[str, str]] = {"cells": _CELLS, "operators": _OPERATORS, "variants": _VARIANTS}


def table_rows(results: Results, summaries: Sequence[Summary]) -> dict[str, Rows]:
    """Every table's rows; a field that a row lacks is not known."""
    operators = [
        {"variant": cell.variant, "framework": cell.framework, "repetition": cell.repetition, "by": by, **asdict(row)}
        for cell in results.numbers
        for by, rows in (("kind", cell.kinds), ("type", cell.types))
        for row in rows
    ]
    return {
        "cells": _cells(results),
        "operators": operators,
        "variants": [row for summary in summaries for row in _variants(summary)],
    }


def render_csv(table: str, rows: Rows) -> str:
    """One line per row; what is not known is an empty field."""
    names = list(TABLES[table])
    return csv_file.render_csv(names, ([row.get(name) for name in names] for row in rows))


def can_write_database() -> bool:
    return importlib.util.find_spec("duckdb") is not None


def write_database(path: Path, tables: Mapping[str, Rows]) -> None:
    import duckdb

    with folder_beside(path.parent) as scratch:
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
