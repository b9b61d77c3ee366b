"""A capture of a network as SQL tables: a NetworkCapture in, a DuckDB connection with its tables out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from profkit.attribution.kinds import KINDS
from profkit.attribution.networks.operators import Operators, operators_in
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.recording import NUMBERS, TEXTS, Recording
from profkit.capture.schema import NONE, Column, Level
from profkit.rendering.sql.database import connect, insert_rows, lock

if TYPE_CHECKING:
    import duckdb

NETWORK_TABLES = ("spans", "steps", "threads", "allocations", "recordings", "baseline", "step_times", "capture")
_ALLOCATIONS = ("span", "time_ns", "address", "bytes")

_SPANS = """
create table spans as select
  s.recording, r.framework, r.source, s.row,
  {texts}, k.kind,
  {level} as level, s.start_ns, s.end_ns, s.end_ns - s.start_ns as duration_ns,
  nullif(s.wall_ns, -1) as wall_ns,
  {numbers}
from span_columns s join recordings r using (recording) left join kinds k on k.id = s.kind {joins}
order by s.recording, s.row
"""


def open_network_database(capture: NetworkCapture, writable_folder: str = "") -> duckdb.DuckDBPyConnection:
    """An in-memory database with NETWORK_TABLES; -1 of the columns is null. It reaches no file outside the folder."""
    database = connect()
    _add_recordings(database, capture.recordings)
    _add_spans(database, capture)
    _add_steps(database, capture)
    _add_threads(database, capture.recordings)
    _add_allocations(database, capture.recordings)
    _add_baseline(database, capture.baseline)
    _add_capture(database, capture)
    lock(database, writable_folder)
    return database


def _add_recordings(database: duckdb.DuckDBPyConnection, recordings: Sequence[Recording]) -> None:
    database.execute(
        "create table recordings (recording integer, framework varchar, source varchar, measures varchar[],"
        " clock_error_ns bigint, facts varchar)"
    )
    rows = [
        (number, each.framework, each.source, list(each.measures), int(each.clock_error_ns), json.dumps(each.facts))
        for number, each in enumerate(recordings)
    ]
    insert_rows(database, "recordings", rows)


def _add_spans(database: duckdb.DuckDBPyConnection, capture: NetworkCapture) -> None:
    recordings = capture.recordings
    database.execute("create table kinds (id integer, kind varchar)")
    insert_rows(database, "kinds", list(enumerate(KINDS)))
    found = [operators_in(capture, each) for each in recordings]
    kinds = [kind for each in found for kind in each.span_kinds()]
    texts = np.array([text for each in recordings for text in each.strings], dtype=object)
    counts = [len(each.strings) for each in recordings]
    database.register(
        "string_columns",
        {
            "recording": np.repeat(np.arange(len(recordings), dtype=np.int32), counts),
            "id": np.concatenate([np.zeros(0, np.int32), *(np.arange(count, dtype=np.int32) for count in counts)]),
            "text": texts,
        },
    )
    database.execute("create table strings as select recording, id, cast(text as varchar) as text from string_columns")
    columns: dict[str, Any] = {
        name: np.concatenate([np.zeros(0, kind), *(each.spans[name] for each in recordings)])
        for name, kind in {**NUMBERS, **dict.fromkeys(TEXTS, np.int32)}.items()
    }
    columns["row"] = np.concatenate([np.zeros(0, np.int32), *(np.arange(len(r), dtype=np.int32) for r in recordings)])
    columns["recording"] = np.repeat(np.arange(len(recordings), dtype=np.int32), [len(each) for each in recordings])
    columns["kind"] = np.array([NONE if kind is None else KINDS.index(kind) for kind in kinds], np.int32)
    columns["wall_ns"] = np.concatenate([np.zeros(0, np.int64), *map(_wall_ns, found)])
    database.register("span_columns", columns)
    others = [name for name in NUMBERS if name not in ("level", "start_ns", "end_ns")]
    levels = " ".join(f"when {level.value} then '{level.name.lower()}'" for level in Level)
    database.execute(
        _SPANS.format(
            texts=", ".join(f"t_{name}.text as {name}" for name in TEXTS),
            numbers=", ".join(f"nullif(s.{name}, -1) as {name}" for name in others),
            level=f"case s.level {levels} end",
            joins=" ".join(
                f"left join strings t_{name} on t_{name}.recording = s.recording and t_{name}.id = s.{name}"
                for name in TEXTS
            ),
        )
    )
    database.execute("drop table strings; drop table kinds")
    database.unregister("span_columns")


def _wall_ns(operators: Operators) -> Column:
    """Each operator's share of its step's wall clock, as the tables have it; NONE for what has no share."""
    wall = np.full(len(operators.recording), NONE, np.int64)
    wall[operators.rows] = operators.wall_ns[operators.rows]
    return wall


def _add_steps(database: duckdb.DuckDBPyConnection, capture: NetworkCapture) -> None:
    database.execute(
        "create table steps (recording integer, step integer, start_ns bigint, end_ns bigint, duration_ns bigint)"
    )
    for number, each in enumerate(capture.recordings):
        times = zip(each.steps["start_ns"].tolist(), each.steps["end_ns"].tolist())
        rows = [(number, step, start, end, end - start) for step, (start, end) in enumerate(times)]
        insert_rows(database, "steps", rows)
    database.execute("create table step_times (pass varchar, sample integer, duration_ns bigint)")
    for name, samples in {"unrecorded": capture.step_ns, **capture.recorded_step_ns}.items():
        insert_rows(database, "step_times", [(name, place, value) for place, value in enumerate(samples)])


def _add_threads(database: duckdb.DuckDBPyConnection, recordings: Sequence[Recording]) -> None:
    database.execute(
        "create table threads (recording integer, thread integer, os_thread_id bigint, role varchar, name varchar)"
    )
    rows = [
        (number, place, thread.get("id"), thread.get("role"), thread.get("name"))
        for number, each in enumerate(recordings)
        for place, thread in enumerate(each.threads)
    ]
    insert_rows(database, "threads", rows)


def _add_allocations(database: duckdb.DuckDBPyConnection, recordings: Sequence[Recording]) -> None:
    tables = [each.allocations if each.allocations else _nothing() for each in recordings]
    columns = {name: np.concatenate([_nothing()[name], *(table[name] for table in tables)]) for name in _ALLOCATIONS}
    sizes = [len(table["time_ns"]) for table in tables]
    columns["recording"] = np.repeat(np.arange(len(recordings), dtype=np.int32), sizes)
    database.register("allocation_columns", columns)
    database.execute(
        "create table allocations as select a.recording, nullif(a.span, -1) as span, s.name as span_name, s.layer,"
        " s.phase, a.time_ns, a.address, a.bytes from allocation_columns a"
        " left join spans s on s.recording = a.recording and s.row = a.span order by a.recording, a.time_ns"
    )
    database.unregister("allocation_columns")


def _nothing() -> Mapping[str, Any]:
    return {name: np.zeros(0, np.int64) for name in _ALLOCATIONS}


def _add_baseline(database: duckdb.DuckDBPyConnection, baseline: Sequence[Mapping[str, Any]]) -> None:
    columns = {
        "layer": "varchar",
        "phase": "varchar",
        "kind": "varchar",
        "threads": "integer",
        "native_ns": "double",
        "native_key": "varchar",
        "one_thread_ns": "double",
        "workspace_bytes": "bigint",
        "flops": "bigint",
        "bytes": "bigint",
        "bound_ns": "double",
        "bound_by": "varchar",
        "native_bound_ns": "double",
    }
    database.execute(f"create table baseline ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    insert_rows(database, "baseline", [tuple(row.get(name) for name in columns) for row in baseline])


def _add_capture(database: duckdb.DuckDBPyConnection, capture: NetworkCapture) -> None:
    database.execute(
        "create table capture (network varchar, framework varchar, mode varchar, threads integer,"
        " is_training boolean, status varchar, reason varchar, error double, tolerance double, data varchar,"
        " first_step_ns bigint, versions varchar, notes varchar[], environment varchar)"
    )
    about = capture
    numbers = (about.error, about.tolerance, about.data, about.first_step_ns)
    identity = (json.dumps(about.network), about.framework, about.mode, about.threads, about.is_training)
    rest = (json.dumps(about.versions), list(about.notes), json.dumps(about.environment))
    insert_rows(database, "capture", [(*identity, about.status, about.reason, *numbers, *rest)])
