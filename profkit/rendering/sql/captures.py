"""A capture as SQL tables: a Capture in, a DuckDB connection with views out; nothing is copied but the names."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.capture.schema import (
    ActivityKind,
    AllocationCall,
    Capture,
    CopyDirection,
    Device,
    Level,
    MemoryKind,
    PayloadType,
    RangeKind,
    Ranges,
    Source,
    Table,
)
from profkit.rendering.sql.database import connect, insert_rows, lock

if TYPE_CHECKING:
    import duckdb

TABLES = (
    "ranges", "calls", "activities", "copies", "allocations", "memory_events", "samples", "threads", "processes",
    "devices", "capture",
)  # fmt: skip

_RANGES = f"""
create view ranges as select
  r.row, n.text as name, d.text as domain, c.text as category,
  case when d.text is null then n.text else d.text || ':' || n.text end as title,
  {{kind}} as kind, {{source}} as source, {{level}} as level,
  l.text as layer, p.text as phase, h.text as shapes, nullif(r.sequence, -1) as sequence,
  r.start_ns, r.end_ns, r.end_ns - r.start_ns as duration_ns,
  nullif(r.parent, -1) as parent, r.depth, r.is_open,
  r.thread, t.thread_name, t.process, t.pid, r.end_thread,
  case when r.payload_type in ({PayloadType.INT64:d}, {PayloadType.INT32:d}, {PayloadType.UINT32:d}) or
    (r.payload_type = {PayloadType.UINT64:d} and r.payload_integer >= 0) then r.payload_integer end as payload_integer,
  case when r.payload_type not in ({PayloadType.NONE:d}, {PayloadType.OPAQUE:d}) then r.payload_number end as payload,
  {{payload_type}} as payload_type,
  case when r.colour <> 0 then printf('#%08x', r.colour) end as colour,
  nullif(r.minor_faults, -1) as minor_faults, nullif(r.major_faults, -1) as major_faults,
  nullif(r.voluntary_switches, -1) as voluntary_switches,
  nullif(r.involuntary_switches, -1) as involuntary_switches
from range_columns r
  left join strings n on n.id = r.name left join strings d on d.id = r.domain left join strings c on c.id = r.category
  left join strings l on l.id = r.layer left join strings p on p.id = r.phase left join strings h on h.id = r.shapes
  left join thread_names t on t.thread = r.thread
order by r.row
"""

_CALLS = """
create view calls as select
  c.row, n.text as name, c.start_ns, c.end_ns, c.end_ns - c.start_ns as duration_ns,
  nullif(c.correlation, -1) as correlation, nullif(c.range, -1) as range, rn.text as range_name,
  nullif(c.return_code, -1) as return_code, c.is_driver = 1 as is_driver,
  nullif(c.thread, -1) as thread, t.thread_name, nullif(c.process, -1) as process, p.pid
from call_columns c
  left join strings n on n.id = c.name left join thread_names t on t.thread = c.thread
  left join processes p on p.process = c.process
  left join range_columns r on r.row = c.range left join strings rn on rn.id = r.name
order by c.row
"""

_ACTIVITIES = """
create view activities as select
  a.row, {kind} as kind, n.text as name, a.start_ns, a.end_ns, a.end_ns - a.start_ns as duration_ns,
  nullif(a.device, -1) as device, nullif(a.context, -1) as context, nullif(a.stream, -1) as stream,
  nullif(a.correlation, -1) as correlation, nullif(a.graph_node, -1) as graph_node,
  nullif(a.call, -1) as call, cn.text as call_name, nullif(a.range, -1) as range, rn.text as range_name,
  nullif(a.queued_ns, -1) as queued_ns, nullif(a.bytes, -1) as bytes, {direction} as direction,
  {source_kind} as source_kind, {target_kind} as target_kind,
  {sizes},
  nullif(a.process, -1) as process, p.pid
from activity_columns a
  left join strings n on n.id = a.name left join processes p on p.process = a.process
  left join call_columns c on c.row = a.call left join strings cn on cn.id = c.name
  left join range_columns r on r.row = a.range left join strings rn on rn.id = r.name
order by a.row;
create view copies as select
  row, kind, name, start_ns, end_ns, duration_ns, bytes, direction, source_kind, target_kind, device, stream,
  call, call_name, range, range_name, process, pid
from activities where kind <> 'kernel'
"""
_SIZES = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "static_shared_bytes",
    "dynamic_shared_bytes",
)  # fmt: skip

_MEMORY_EVENTS = """
create view memory_events as select
  m.row, m.time_ns, m.bytes, m.address, {kind} as kind, nullif(nullif(m.pool, 0), -1) as pool,
  nullif(m.device, -1) as device, nullif(m.range, -1) as range, n.text as range_name,
  nullif(m.thread, -1) as thread, t.thread_name, nullif(m.process, -1) as process, p.pid
from memory_columns m
  left join thread_names t on t.thread = m.thread
  left join range_columns r on r.row = m.range left join strings n on n.id = r.name
  left join processes p on p.process = m.process
order by m.row
"""

_ALLOCATIONS = """
create view allocations as select
  a.row, a.time_ns, a.bytes, a.address, {call} as call, a.is_part,
  a.thread, t.thread_name, t.process, t.pid,
  nullif(a.range, -1) as range, n.text as range_name,
  nullif(a.free_time_ns, -1) as free_time_ns, nullif(a.free_thread, -1) as free_thread,
  nullif(a.free_range, -1) as free_range,
  case when a.free_time_ns <> -1 then a.free_time_ns - a.time_ns end as lifetime_ns
from allocation_columns a
  left join range_columns r on r.row = a.range left join strings n on n.id = r.name
  left join thread_names t on t.thread = a.thread
order by a.row
"""

_THREADS = """
create table thread_names as select
  c.row as thread, s.text as thread_name, c.process, p.pid
from thread_columns c left join strings s on s.id = c.name left join processes p on p.process = c.process;
create view threads as select
  n.thread, n.thread_name, n.process, n.pid, c.index, c.os_thread_id, c.start_ns, c.end_ns,
  c.end_ns - c.start_ns as duration_ns, c.small_allocations, c.small_allocated_bytes, c.unbalanced_pops, c.dropped
from thread_columns c join thread_names n on n.thread = c.row
order by n.thread
"""

_SAMPLES = """
create view samples as select s.process, p.pid, s.time_ns, s.resident_bytes
from sample_columns s left join processes p on p.process = s.process
order by s.row
"""

_PROCESS_COLUMNS = {
    "pid": "bigint",
    "name": "varchar",
    "parent_pid": "bigint",
    "command": "varchar[]",
    "clock": "varchar",
    "start_ns": "bigint",
    "end_ns": "bigint",
    "has_ended": "boolean",
    "empty_range_ns": "double",
    "clock_read_ns": "double",
    "cross_core_skew_ns": "double",
    "clock_drift_ppm": "double",
    "clock_error_ns": "double",
    "frees_of_unknown": "bigint",
}


def open_database(capture: Capture, writable_folder: str = "") -> duckdb.DuckDBPyConnection:
    """An in-memory database with the views of `TABLES`.

    It can read and write no file outside `writable_folder`, load no extension and reach no network.
    """
    database = connect()
    strings = np.empty(len(capture.strings), dtype=object)
    strings[:] = capture.strings
    database.register("string_columns", {"id": np.arange(len(strings), dtype=np.int32), "text": strings})
    database.execute("create table strings as select id, cast(text as varchar) as text from string_columns")
    _add_processes(database, capture)
    _add_devices(database, capture)
    _add_capture(database, capture)
    database.register("thread_columns", _columns(capture.threads))
    database.register("range_columns", {**_columns(capture.ranges), **_payloads(capture.ranges)})
    database.register("allocation_columns", _columns(capture.allocations))
    database.register("sample_columns", _columns(capture.samples))
    database.register("call_columns", _columns(capture.calls))
    database.register("activity_columns", _columns(capture.activities))
    database.register("memory_columns", _columns(capture.memory_events))
    database.execute(_THREADS)
    kinds = {"kind": _words("r.kind", RangeKind), "source": _words("nullif(r.source, 0)", Source)}
    kinds["level"] = _words("nullif(r.level, -1)", Level)
    database.execute(_RANGES.format(**kinds, payload_type=_words("nullif(r.payload_type, 0)", PayloadType)))
    database.execute(_ALLOCATIONS.format(call=_words("a.call", AllocationCall)))
    database.execute(_SAMPLES)
    database.execute(_CALLS)
    ends = {end: _words(f"nullif(a.{end}, -1)", MemoryKind) for end in ("source_kind", "target_kind")}
    sizes = ", ".join(f"nullif(a.{name}, -1) as {name}" for name in _SIZES)
    direction = _words("nullif(a.direction, -1)", CopyDirection)
    database.execute(_ACTIVITIES.format(kind=_words("a.kind", ActivityKind), direction=direction, sizes=sizes, **ends))
    database.execute(_MEMORY_EVENTS.format(kind=_words("nullif(m.kind, -1)", MemoryKind)))
    lock(database, writable_folder)
    return database


def _columns(table: Table) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a table under their names, with the row's number."""
    columns = {field.name: table[field.name] for field in fields(table)}
    return {"row": np.arange(len(table), dtype=np.int32), **columns}


def _payloads(ranges: Ranges) -> dict[str, np.ndarray[Any, Any]]:
    """Payload bits as integers and as floating point numbers; where a type has neither, anything."""
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


def _words(column: str, members: Any) -> str:
    """SQL that turns the numbers of an enumeration into its names in small letters."""
    cases = " ".join(f"when {member.value} then '{member.name.lower()}'" for member in members)
    return f"case {column} {cases} when null then null else {column}::varchar end"


def _add_processes(database: duckdb.DuckDBPyConnection, capture: Capture) -> None:
    types = {"process": "integer", **_PROCESS_COLUMNS, "description": "varchar"}
    database.execute(f"create table processes ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    rows = [
        (index, *(_plain(getattr(process, name)) for name in _PROCESS_COLUMNS), json.dumps(process.description))
        for index, process in enumerate(capture.processes)
    ]
    insert_rows(database, "processes", rows)


def _add_devices(database: duckdb.DuckDBPyConnection, capture: Capture) -> None:
    names = [field.name for field in fields(Device)]
    columns = ", ".join(f"{name} {'varchar' if name == 'name' else 'bigint'}" for name in names)
    database.execute(f"create table devices ({columns})")
    insert_rows(database, "devices", [tuple(device.known().get(name) for name in names) for device in capture.devices])


def _add_capture(database: duckdb.DuckDBPyConnection, capture: Capture) -> None:
    database.execute(
        "create table capture (path varchar, recorder varchar, created_unix_ns bigint, dropped_records bigint,"
        " dropped_disk_full bigint, dropped_too_slow bigint, dropped_too_deep bigint, stalled_ns bigint,"
        " replaced_names bigint, warnings varchar[], facts varchar)"
    )
    losses = capture.losses
    counts = (losses.records, losses.disk_full, losses.too_slow, losses.too_deep, losses.stalled_ns)
    numbers = [min(count, 2**63 - 1) for count in (*counts, losses.replaced_names)]
    facts = json.dumps(capture.facts)
    row = (capture.path, capture.recorder, capture.created_unix_ns, *numbers, list(capture.warnings), facts)
    insert_rows(database, "capture", [row])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
