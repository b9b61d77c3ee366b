"""Captures as arrays in a zip archive: a Capture goes into a folder of it, and comes out of it checked.

Worker side: standard library and NumPy 1.23 only. The archive can be written without the compiled module.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, STRINGS, TABLES, Capture, Column, Device, Level, Losses, Process, Table

ABOUT = "about.json"
_COLUMNS = "columns"
_RECORDS: Mapping[str, Callable[..., Any]] = {"processes": Process, "devices": Device}


def save(capture: Capture, path: str | Path) -> None:
    """Write a capture for another process."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        put(capture, archive, "")


def load(path: str | Path) -> Capture:
    """What `save` wrote."""
    with zipfile.ZipFile(path) as archive:
        return take(archive, "")


def put(capture: Capture, archive: zipfile.ZipFile, folder: str) -> None:
    """Write a capture into a folder of an archive; the folder's name is empty or ends in a slash."""
    about: dict[str, Any] = {
        item.name: getattr(capture, item.name) for item in fields(Capture) if item.name not in TABLES
    }
    for name in _RECORDS:
        about[name] = [asdict(each) for each in about[name]]
    about["losses"] = asdict(capture.losses)
    tables = {table: getattr(capture, table).columns() for table in TABLES}
    names = {table: list(columns) for table, columns in tables.items()}
    archive.writestr(f"{folder}{ABOUT}", json.dumps({_COLUMNS: names, **about}))
    for table, columns in tables.items():
        for name, column in columns.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(column), allow_pickle=False)
            archive.writestr(f"{folder}{table}/{name}.npy", data.getvalue())


def take(archive: zipfile.ZipFile, folder: str) -> Capture:
    """What `put` wrote into that folder; ValueError, KeyError or TypeError when it is damaged."""
    about = json.loads(archive.read(f"{folder}{ABOUT}"))
    about["losses"] = Losses(**about["losses"])
    for name, record in _RECORDS.items():
        about[name] = tuple(record(**_tupled(each)) for each in about[name])
    for name in ("strings", "warnings", "measures"):
        about[name] = tuple(map(str, about[name]))
    names = about.pop(_COLUMNS)
    tables = {
        table: kind(**{name: _column(archive, f"{folder}{table}/{name}.npy", kind, name) for name in names[table]})
        for table, kind in TABLES.items()
    }
    return _sound(Capture(**about, **tables))  # type: ignore[arg-type]


def _tupled(record: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of JSON as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}


def _column(archive: zipfile.ZipFile, entry: str, kind: type[Table], name: str) -> Column:
    wanted = {item.name: item.metadata["absent"].dtype for item in fields(kind)}.get(name)
    column: Column = np.lib.format.read_array(io.BytesIO(archive.read(entry)), allow_pickle=False)
    if column.dtype != wanted or column.ndim != 1:
        raise ValueError(f"{entry} is not a column of {wanted}")
    return column


def _sound(capture: Capture) -> Capture:
    """The capture, when its tables fit together: whoever reads them need not look for wild rows."""
    sizes = {STRINGS: len(capture.strings), "processes": len(capture.processes)}
    sizes |= {name: len(getattr(capture, name)) for name in TABLES}
    for name in TABLES:
        table = getattr(capture, name)
        for column, target in table.references().items():
            values = table[column]
            if table.has(column) and len(values) and not (values.min() >= NONE and values.max() < sizes[target]):
                raise ValueError(f"column {column} of {name} names something that is not there")
    ranges = capture.ranges
    if len(ranges) and ranges.thread.min() < 0:
        raise ValueError("a range has no thread")
    if (ranges.parent >= np.arange(len(ranges))).any():
        raise ValueError("a range precedes its parent")
    threads, starts = np.diff(ranges.thread), np.diff(ranges.start_ns)
    if ((threads < 0) | (threads == 0) & (starts < 0)).any():
        raise ValueError("ranges are not in the order of threads and starts")
    if ((ranges.level < NONE) | (ranges.level >= len(Level))).any():
        raise ValueError("a range has an unknown level")
    if len(capture.threads) and capture.threads.process.min() < 0:
        raise ValueError("a thread has no process")
    return capture
