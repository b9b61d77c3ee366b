"""A result as SQL tables: a Result in, a DuckDB connection with its tables out. Columns have the names of the CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.measurement.result import Result, Row
from profkit.rendering.results.columns import flat_record
from profkit.rendering.sql.database import add_table, connect, lock, quoted

if TYPE_CHECKING:
    import duckdb

RESULT_TABLES = ("rows", "samples", "warmups", "cells", "environment", "result")
_LISTS = ("samples_ns", "sample_rounds", "warmup_ns", "throttled_samples")
"""Lists of a row: tables of their own."""
_JSON = ("dropped", "machine", "policy")
_CELLS = {
    "cell": "integer",
    "op": "varchar",
    "spec": "varchar",
    "threads": "integer",
    **dict.fromkeys(("cache", "output", "baseline", "bound"), "varchar"),
    **dict.fromkeys(("bound_ns", "flops_per_s", "bytes_per_s", "seconds"), "double"),
    **dict.fromkeys(("left_out", "notes"), "varchar[]"),
    "rounds": "integer",
    "run_starts": "integer[]",
    "is_too_busy": "boolean",
    "floor": "double",
    **dict.fromkeys(("floor_from", *_JSON), "varchar"),
}
_TYPES = {bool: "boolean", int: "bigint", float: "double"}


def open_result_database(result: Result, writable_folder: str = "") -> duckdb.DuckDBPyConnection:
    """An in-memory database with RESULT_TABLES; null: not measured. It reaches no file outside the folder."""
    database = connect()
    _add_rows(database, result)
    _add_times(database, result)
    _add_cells(database, result)
    add_table(database, "environment", {"fact": "varchar", "value": "varchar"}, list(_facts(result.environment)))
    about = {"interrupted": "boolean", "flops_per_s": "double", "bytes_per_s": "double"}
    peaks = [result.peaks.get(name) for name in ("flops_per_s", "bytes_per_s")]
    add_table(database, "result", about, [(result.interrupted, *peaks)])
    lock(database, writable_folder)
    return database


def _add_rows(database: duckdb.DuckDBPyConnection, result: Result) -> None:
    """One per implementation and cell, with the fields of its spec; a field that another operator has is null."""
    records = [
        {"cell": number, **flat_record(cell, row, cell.spec.to_dict())}
        for number, cell in enumerate(result.cells)
        for row in cell.rows
    ]
    names = dict.fromkeys(name for record in records for name in record if name not in _LISTS)
    columns = {name: _type_of(name, [record.get(name) for record in records]) for name in names}
    columns = {"cell": "integer", "key": "varchar"} | columns | {"cell": "integer"}
    for record in records:
        for name, value in record.items():
            if value is not None and columns.get(name) == "varchar" and not isinstance(value, str):
                record[name] = json.dumps(value, ensure_ascii=False)
    rows = [tuple(map(record.get, columns)) for record in records]
    add_table(database, "rows", columns, rows)


def _type_of(name: str, values: Sequence[Any]) -> str:
    """By the field of a Row where it is one: a column of nulls has a type, too."""
    annotation = str(Row.__annotations__.get(name, ""))
    if annotation.startswith(("list", "dict")):
        return "varchar"
    if annotation:
        return "double" if "float" in annotation else "bigint" if "int" in annotation else "varchar"
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return "double"
    return _TYPES.get(kinds.pop(), "varchar") if len(kinds) == 1 else "varchar"


def _add_times(database: duckdb.DuckDBPyConnection, result: Result) -> None:
    rows = [(number, row) for number, cell in enumerate(result.cells) for row in cell.rows]
    samples = [
        (number, row.key, place, turn, time, place in throttled)
        for number, row in rows
        for throttled in [set(row.throttled_samples)]
        for place, (turn, time) in enumerate(zip(row.sample_rounds, row.samples_ns))
    ]
    keys = {"cell": "integer", "key": "varchar"}
    columns = {**keys, "sample": "integer", "round": "integer", "time_ns": "double", "is_throttled": "boolean"}
    _add_many(database, "samples", columns, samples)
    warmups = [(number, row.key, *each) for number, row in rows for each in enumerate(row.warmup_ns)]
    _add_many(database, "warmups", {**keys, "call": "integer", "time_ns": "double"}, warmups)


def _add_many(
    database: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Column by column: rows one after another cost 0.2 ms each, and a sweep has 100,000 samples."""
    kinds: dict[str, Any] = {"varchar": object, "integer": np.int32, "double": np.float64, "boolean": np.bool_}
    values = list(zip(*rows)) or [()] * len(columns)
    arrays: dict[str, Any] = {name: np.array(each, kinds[columns[name]]) for name, each in zip(columns, values)}
    database.register("added", arrays)
    chosen = ", ".join(f"cast({quoted(name)} as {kind}) as {quoted(name)}" for name, kind in columns.items())
    database.execute(f"create table {table} as select {chosen} from added")
    database.unregister("added")


def _add_cells(database: duckdb.DuckDBPyConnection, result: Result) -> None:
    own = [name for name in _CELLS if name not in ("cell", "op", "spec", "flops_per_s", "bytes_per_s", *_JSON)]
    rows = []
    for number, cell in enumerate(result.cells):
        values = {name: getattr(cell, name) for name in own} | {name: cell.peaks.get(name) for name in cell.peaks}
        values |= {"cell": number, "op": cell.spec.op, "spec": json.dumps(cell.spec.to_dict(), ensure_ascii=False)}
        values |= {name: json.dumps(value, ensure_ascii=False) for name in _JSON if (value := getattr(cell, name))}
        rows.append(tuple(values.get(name) for name in _CELLS))
    add_table(database, "cells", _CELLS, rows)


def _facts(value: Any, name: str = "") -> Iterator[tuple[str, str | None]]:
    """The fingerprint, one fact a line: `packages.torch`; lists as JSON."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _facts(item, f"{name}.{key}" if name else str(key))
    elif value is None or isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False)
