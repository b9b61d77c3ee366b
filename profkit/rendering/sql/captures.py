"""A capture as SQL tables: a Capture (and its Run) in, a DuckDB connection with views out; nothing is copied but names.

The views follow the schema: its columns under their names, texts and words in place of numbers, NONE as null, and
beside a row of another table that one's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.attribution.kinds import KINDS
from profkit.capture.run import Run
from profkit.capture.schema import (
    NONE,
    STRINGS,
    Capture,
    ColumnTable,
    Device,
    PayloadType,
    Process,
    RangeKind,
    Ranges,
)
from profkit.capture.schema import TABLES as SCHEMA
from profkit.rendering.operators import operator_columns
from profkit.rendering.sql.database import add_table, connect, lock

if TYPE_CHECKING:
    import duckdb

TABLES = (
    "ranges", "steps", "calls", "activities", "copies", "allocations", "memory_events", "samples", "threads",
    "processes", "devices", "capture",
)  # fmt: skip
RUN_TABLES = ("run", "baseline", "step_times")
"""Further tables of a network's run."""

_ALWAYS_KNOWN = ("start_ns", "end_ns", "time_ns")
_ROW_NAMES = {"threads": "thread", "steps": "step"}
_SQL_TYPES = {
    "int8": "tinyint", "int32": "integer", "int64": "bigint",
    "uint8": "utinyint", "uint32": "uinteger", "uint64": "ubigint", "bool": "boolean",
}  # fmt: skip
_RECORD_TYPES = {
    "int": "bigint", "int | None": "bigint", "float": "double", "float | None": "double", "bool": "boolean",
    "tuple[str, ...]": "varchar[]", "list[str]": "varchar[]",
}  # fmt: skip
_IS_INTEGER = (
    f"t.payload_type in ({PayloadType.INT64:d}, {PayloadType.INT32:d}, {PayloadType.UINT32:d})"
    f" or (t.payload_type = {PayloadType.UINT64:d} and t.payload_integer >= 0)"
)
_IS_NUMBER = f"t.payload_type not in ({PayloadType.NONE:d}, {PayloadType.OPAQUE:d})"
_PAYLOADS = (
    f"case when {_IS_INTEGER} then t.payload_integer end as payload_integer",
    f"case when {_IS_NUMBER} then t.payload_number end as payload",
)
_NO_PAYLOADS = ("null::bigint as payload_integer", "null::double as payload")
_SPECIAL = {
    ("ranges", "colour"): "case when {raw} <> 0 then printf('#%08x', {raw}) end as colour",
    ("calls", "is_driver"): "nullif({raw}, -1) = 1 as is_driver",
    ("memory_events", "bytes"): "{raw} as bytes",  # negative ones are freed
    ("memory_events", "pool"): "nullif(nullif({raw}, 0), -1) as pool",
}
"""Columns that are shown in another form."""
_BASELINE = {
    "layer": "varchar", "phase": "varchar", "kind": "varchar", "threads": "integer", "native_ns": "double",
    "native_key": "varchar", "one_thread_ns": "double", "workspace_bytes": "bigint", "flops": "bigint",
    "bytes": "bigint", "bound_ns": "double", "bound_by": "varchar", "native_bound_ns": "double",
}  # fmt: skip
_COPIES = """
create view copies as select
  row, kind, name, start_ns, end_ns, duration_ns, bytes, direction, source_kind, target_kind, device, stream,
  call, call_name, range, range_name, process, pid
from activities where kind <> 'kernel'
"""


def open_database(capture: Capture, writable_folder: str = "", run: Run | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory database with the views of `TABLES`; of a run, whose passes the capture has, with RUN_TABLES too.

    It can read and write no file outside `writable_folder`, load no extension and reach no network.
    """
    database = connect()
    strings = np.empty(len(capture.strings), dtype=object)
    strings[:] = capture.strings
    database.register("string_columns", {"id": np.arange(len(strings), dtype=np.int32), "text": strings})
    database.execute("create table strings as select id, cast(text as varchar) as text from string_columns")
    _add_processes(database, capture.processes, (capture,) if run is None else run.captures)
    add_table(database, "devices", _types(Device), [_values(device) for device in capture.devices])
    _add_capture(database, capture)
    for table in SCHEMA:
        rows: ColumnTable = getattr(capture, table)
        further = _payloads(capture.ranges) if table == "ranges" else {}
        if table == "ranges" and len(capture.steps):
            further["operator_kind"], further["wall_ns"] = operator_columns(capture)
        number = np.arange(len(rows), dtype=np.int32)
        database.register(f"{table}_columns", {"row": number, **rows.columns(), **further})
    name, process = (_raw(capture.threads, column) for column in ("name", "process"))
    database.execute(
        f"create table thread_names as select t.row as thread, s.text as thread_name, {process} as process, p.pid"
        f" from threads_columns t left join strings s on s.id = {name} left join processes p on p.process = {process}"
    )
    for table in SCHEMA:
        database.execute(_SqlView(table, capture).sql())
    database.execute(_COPIES)
    if run is not None:
        _add_run(database, run)
    lock(database, writable_folder)
    return database


# --- Tables of the schema ---


class _SqlView:
    """The SQL of a view, as it grows."""

    def __init__(self, name: str, capture: Capture) -> None:
        self._name = name
        self._capture = capture
        self._table: ColumnTable = getattr(capture, name)
        self._refers = self._table.references()
        self._shown = [f"t.row as {_ROW_NAMES.get(name, 'row')}"]
        self._joins: list[str] = []

    def sql(self) -> str:
        """Creates the view, whose rows are in the order of the table."""
        for item in sorted(fields(self._table), key=lambda item: item.name != "name"):
            self._add(item)
            self._add_what_follows(item.name)
        shown, joins = ", ".join(self._shown), " ".join(f"left join {join}" for join in self._joins)
        return f"create view {self._name} as select {shown} from {self._name}_columns t {joins} order by t.row"

    def _add(self, item: Field[Any]) -> None:
        name, place = item.name, (self._name, item.name)
        raw = _raw(self._table, name)
        shown = "thread_name" if place == ("threads", "name") else name
        if place == ("ranges", "payload"):
            self._shown += _PAYLOADS if self._table.has("payload_type") else _NO_PAYLOADS
        elif place in _SPECIAL:
            self._shown.append(_SPECIAL[place].format(raw=raw))
        elif self._refers.get(name) == STRINGS:
            if self._table.has(name):
                self._joins.append(f"strings s_{name} on s_{name}.id = {raw}")
            self._shown.append(f"{self._text(name)} as {shown}")
        elif kinds := item.metadata["kinds"]:
            words = {member.value: member.name.lower() for member in kinds}
            number = raw if kinds is RangeKind else f"nullif({raw}, {item.metadata['absent']})"
            self._shown.append(f"{_words(number, words)} as {name}")
        elif item.metadata["absent"].dtype.kind == "i" and name not in _ALWAYS_KNOWN:
            self._shown.append(f"nullif({raw}, {NONE}) as {name}")
        else:
            self._shown.append(f"{raw} as {name}")

    def _text(self, name: str) -> str:
        return f"s_{name}.text" if self._table.has(name) else "null::varchar"

    def _add_what_follows(self, name: str) -> None:
        """Names of what a row of another table is, and what is computed."""
        target = self._refers.get(name)
        if name == "thread":
            self._joins.append(f"thread_names on thread_names.thread = {_raw(self._table, name)}")
            self._shown.append("thread_names.thread_name")
            if "process" not in self._refers:
                self._shown += ["thread_names.process", "thread_names.pid"]
        elif target == "processes":
            self._joins.append(f"processes on processes.process = {_raw(self._table, name)}")
            self._shown.append("processes.pid")
        elif name in ("range", "call") and target is not None:
            names = _raw(getattr(self._capture, target), "name", f"{target}_columns")
            self._joins.append(f"{target}_columns on {target}_columns.row = {_raw(self._table, name)}")
            self._joins.append(f"strings {name}_strings on {name}_strings.id = {names}")
            self._shown.append(f"{name}_strings.text as {name}_name")
        elif name == "end_ns":
            self._shown.append(f"{_raw(self._table, name)} - {_raw(self._table, 'start_ns')} as duration_ns")
        elif name == "free_time_ns":
            freed, taken = _raw(self._table, name), _raw(self._table, "time_ns")
            self._shown.append(f"nullif({freed}, {NONE}) - {taken} as lifetime_ns")
        elif (self._name, name) == ("ranges", "domain"):
            self._shown.append(f"coalesce({self._text('domain')} || ':', '') || {self._text('name')} as title")
        elif (self._name, name) == ("ranges", "type"):
            has_steps = bool(len(self._capture.steps))
            kind = _words(f"nullif(t.operator_kind, {NONE})", dict(enumerate(KINDS))) if has_steps else "null::varchar"
            wall = f"nullif(t.wall_ns, {NONE})" if has_steps else "null::bigint"
            self._shown += [f"{kind} as operator_kind", f"{wall} as wall_ns"]


def _raw(table: ColumnTable, name: str, alias: str = "t") -> str:
    """A column as it was registered, or what it reads as where the source does not have it."""
    if table.has(name):
        return f"{alias}.{name}"
    absent = next(item.metadata["absent"] for item in fields(table) if item.name == name)
    return f"({absent})::{_SQL_TYPES[absent.dtype.name]}"


def _words(raw: str, words: Mapping[int, str]) -> str:
    cases = " ".join(f"when {number} then '{word}'" for number, word in words.items())
    return f"case {raw} {cases} else {raw}::varchar end"


def _payloads(ranges: Ranges) -> dict[str, np.ndarray[Any, Any]]:
    """Payload bits as integers and as floating point numbers; where a type has neither, anything."""
    if not ranges.has("payload_type"):
        return {}
    bits = np.ascontiguousarray(ranges.payload)
    kind = ranges.payload_type
    integer = bits.view(np.int64).copy()
    low = bits.astype(np.uint32)
    integer[kind == PayloadType.INT32] = low.view(np.int32)[kind == PayloadType.INT32]
    integer[kind == PayloadType.UINT32] = low[kind == PayloadType.UINT32]
    number = integer.astype(np.float64)
    number[kind == PayloadType.UINT64] = bits[kind == PayloadType.UINT64]
    number[kind == PayloadType.FLOAT64] = bits.view(np.float64)[kind == PayloadType.FLOAT64]
    number[kind == PayloadType.FLOAT32] = low.view(np.float32)[kind == PayloadType.FLOAT32]
    return {"payload_integer": integer, "payload_number": number}


# --- Records ---


def _add_processes(
    database: duckdb.DuckDBPyConnection, processes: Sequence[Process], captures: Sequence[Capture]
) -> None:
    """Each process with what is said of the capture, or of the pass, that it was recorded in."""
    recorded = [(list(each.measures), each.recorder) for each in captures for _ in each.processes]
    types = {"process": "integer", **_types(Process), "measures": "varchar[]", "recorder": "varchar"}
    rows = [(number, *_values(each), *about) for number, (each, about) in enumerate(zip(processes, recorded))]
    add_table(database, "processes", types, rows)


def _add_capture(database: duckdb.DuckDBPyConnection, capture: Capture) -> None:
    losses = capture.losses
    counts = {
        "dropped_records": losses.records,
        "dropped_disk_full": losses.disk_full,
        "dropped_too_slow": losses.too_slow,
        "dropped_too_deep": losses.too_deep,
        "stalled_ns": losses.stalled_ns,
        "replaced_names": losses.replaced_names,
    }
    types = {"path": "varchar", "recorder": "varchar", "created_unix_ns": "bigint", **dict.fromkeys(counts, "bigint")}
    types |= {"warnings": "varchar[]", "facts": "varchar"}
    numbers = [min(count, 2**63 - 1) for count in counts.values()]
    about = (capture.path, capture.recorder, capture.created_unix_ns)
    row = (*about, *numbers, list(capture.warnings), json.dumps(capture.facts))
    add_table(database, "capture", types, [row])


def _add_run(database: duckdb.DuckDBPyConnection, run: Run) -> None:
    tables = ("captures", "baseline", "step_ns", "recorded_step_ns", "processes")
    add_table(database, "run", _types(Run, *tables), [_values(run, *tables)])
    rows = [tuple(row.get(name) for name in _BASELINE) for row in run.baseline]
    add_table(database, "baseline", _BASELINE, rows)
    types = {"pass": "varchar", "process": "integer", "sample": "integer", "duration_ns": "bigint"}
    samples = {"unrecorded": run.process_steps(), **run.process_recorded()}
    times = [
        (name, process, number, value)
        for name, processes in samples.items()
        for process, values in enumerate(processes)
        for number, value in enumerate(values)
    ]
    add_table(database, "step_times", types, times)


def _types(kind: type[Any], *left_out: str) -> dict[str, str]:
    """Names and SQL types of the fields of a dataclass; what has no type of its own is JSON."""
    return {
        item.name: _RECORD_TYPES.get(str(item.type), "varchar") for item in fields(kind) if item.name not in left_out
    }


def _values(record: Any, *left_out: str) -> tuple[Any, ...]:
    """The fields of a dataclass as SQL has them; null: not known."""

    def value(given: Any) -> Any:
        if isinstance(given, Mapping):
            return json.dumps(given)
        return list(given) if isinstance(given, (tuple, list)) else None if given in (NONE, "") else given

    return tuple(value(getattr(record, item.name)) for item in fields(record) if item.name not in left_out)
