"""Captures as columns in a zip archive: a Capture goes into a folder of it, and comes out of it checked.

A column is its numbers alone, little-endian: its type follows from the schema, its length from the entry's size.
Worker side: standard library and NumPy 1.23 only. The archive can be written without the compiled module.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from profkit.capture.checked_json import LONGEST, check, made, open_file, parse_json
from profkit.capture.importers.unzipping import most_bytes
from profkit.capture.schema import (
    NONE,
    STRINGS,
    TABLES,
    Activities,
    Calls,
    Capture,
    Column,
    ColumnTable,
    Device,
    Losses,
    Process,
    Ranges,
    Steps,
)

ABOUT = "about.json"
LARGEST = (1 << 62) - 1
"""Times, sizes and their sums above are damage."""
MOST_DEEP = 1000
"""Ranges in ranges."""
_COLUMNS = "columns"
_RECORDS: Mapping[str, type[Any]] = {"processes": Process, "devices": Device}
_DIRECTORY_END = struct.Struct("<4s4H2LH")
_LOCATOR_BYTES = 20  # of the record before it that points to the end record of files above 4 GiB
_MOST_DIRECTORY = 1 << 20
_DAMAGE = (
    EOFError, KeyError, ValueError, TypeError, IndexError, OverflowError, RuntimeError, struct.error,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class _Facts(TypedDict, total=False):
    """What attribution and rendering read of a capture's facts."""

    notes: list[str]
    peak_bytes: int | None
    layer_kinds: dict[str, str]
    observes_idle: bool
    observes_dispatch: bool
    rank: int
    allocator_peak_bytes: dict[str, dict[str, int]]
    memory_pools: list[dict[str, int]]


@contextmanager
def opened(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """The archive to read from, its sizes checked before anything is unpacked; ValueError for any damage."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _DIRECTORY_END.size - _LOCATOR_BYTES))
            _check_directory(file.read(_DIRECTORY_END.size + _LOCATOR_BYTES))
            with zipfile.ZipFile(file) as archive:
                _check_entries(archive, most_bytes(size))
                yield archive
    except _DAMAGE as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _check_directory(tail: bytes) -> None:
    """The end of the archive says how long its list of entries is, which zipfile reads as a whole."""
    end = tail[-_DIRECTORY_END.size :]
    if not end.startswith(b"PK\5\6") or len(end) != _DIRECTORY_END.size or tail.startswith(b"PK\6\7"):
        raise ValueError("it does not end like a zip archive that profkit writes")
    *_, entries, size, _, _ = _DIRECTORY_END.unpack(end)
    if size > _MOST_DIRECTORY:
        raise ValueError(f"it lists {entries:,} entries in {size:,} bytes, more than {_MOST_DIRECTORY:,}")


def _check_entries(archive: zipfile.ZipFile, most: int) -> None:
    total = sum(entry.file_size for entry in archive.infolist())
    if total > most:
        raise ValueError(f"it unpacks to {total:,} bytes, more than {most:,}")
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
            raise ValueError(f"{entry.filename[:40]!r} is packed in another way than profkit does")


def content(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry's bytes: as many as the archive says, and never more."""
    entry = archive.NameToInfo.get(name)
    if entry is None:
        raise ValueError(f"it has no {name}")
    with archive.open(entry) as stream:
        data = stream.read(entry.file_size)
        if len(data) != entry.file_size or stream.read(1):
            raise ValueError(f"{name} does not have the size given in the archive")
    return data


def document(archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    """The object in an entry of JSON."""
    entry = archive.NameToInfo.get(name)
    if entry is not None and entry.file_size > LONGEST:
        raise ValueError(f"{name} has {entry.file_size:,} bytes, more than {LONGEST:,}")
    found = parse_json(content(archive, name))
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not an object")
    return found


def save(capture: Capture, path: str | Path) -> None:
    """Write a capture for another process."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        put(capture, archive, "")


def load(path: str | Path) -> Capture:
    """What `save` wrote; ValueError when it is damaged."""
    with opened(path) as archive:
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
            archive.writestr(f"{folder}{table}/{name}", column.astype(column.dtype.newbyteorder("<")).tobytes())


def take(archive: zipfile.ZipFile, folder: str) -> Capture:
    """What `put` wrote into that folder; ValueError when it is damaged."""
    place = f"{folder}{ABOUT}"
    about = document(archive, place)
    names = about.pop(_COLUMNS, None)
    check(names, dict[str, list[str]], f"{place} has columns")
    check(about.get("facts"), _Facts, f"{place} has facts", finite=False)
    known: dict[str, Any] = {
        name: tuple(_records(about.pop(name, None), kind, place)) for name, kind in _RECORDS.items()
    }
    known["losses"] = made(Losses, about.pop("losses", None), f"{place}: losses")
    for table, kind in TABLES.items():
        known[table] = kind(**_columns(archive, f"{folder}{table}", kind, names.get(table, [])))
    return _sound(made(Capture, about, place, finite=False, **known))


def _records(values: Any, kind: type[Any], place: str) -> Iterator[Any]:
    what = kind.__name__.lower()
    check(values, list[Any], f"{place} has, in place of records of {what},")
    for number, value in enumerate(values):
        yield made(kind, value, f"{place}: {what} {number}", finite=False)


def _columns(archive: zipfile.ZipFile, folder: str, kind: type[ColumnTable], names: Sequence[str]) -> dict[str, Column]:
    """The columns of a table; their sizes must fit each other before one of them is read."""
    types = {item.name: item.metadata["absent"].dtype for item in fields(kind)}
    rows = set()
    for name in names:
        entry = archive.NameToInfo.get(f"{folder}/{name}")
        if name not in types or entry is None or entry.file_size % types[name].itemsize:
            raise ValueError(f"{folder} has no column {name[:40]!r} of {types.get(name, 'any type')}")
        rows.add(entry.file_size // types[name].itemsize)
    if len(rows) > 1:
        raise ValueError(f"the columns of {folder} have {' and '.join(map(str, sorted(rows)))} rows")
    return {name: _column(content(archive, f"{folder}/{name}"), types[name]) for name in names}


def _column(data: bytes, dtype: np.dtype[Any]) -> Column:
    if dtype == np.bool_ and len(data) and max(data) > 1:
        raise ValueError("a column of truths has other values")
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _sound(capture: Capture) -> Capture:
    """The capture, after checking that its tables are consistent: readers need not check row numbers again."""
    sizes = {STRINGS: len(capture.strings), "processes": len(capture.processes)}
    sizes |= {name: len(getattr(capture, name)) for name in TABLES}
    for name in TABLES:
        table = getattr(capture, name)
        for column, target in table.references().items():
            values = table[column]
            if table.has(column) and len(values) and not (values.min() >= NONE and values.max() < sizes[target]):
                raise ValueError(f"column {column} of {name} names something that is not there")
        for item in fields(table):
            kinds = item.metadata["kinds"]
            known = (*map(int, kinds), item.metadata["absent"]) if kinds else ()
            _check_values(table[item.name], known, f"column {item.name} of {name}")
        if isinstance(table, Ranges | Steps | Calls | Activities) and (table.end_ns < table.start_ns).any():
            raise ValueError(f"a row of {name} ends before it starts")
    for process in capture.processes:
        if not -LARGEST <= process.start_ns <= process.end_ns <= LARGEST:
            raise ValueError(f"process {process.pid} ends before it starts, or its times are too large")
    _check_ranges(capture.ranges)
    if len(capture.threads) and capture.threads.process.min() < 0:
        raise ValueError("a thread has no process")
    if (np.diff(capture.steps.start_ns) < 0).any() or (capture.steps.start_ns[1:] < capture.steps.end_ns[:-1]).any():
        raise ValueError("the steps are not in order")
    return capture


def _check_values(values: Column, kinds: Sequence[int], what: str) -> None:
    """Kinds must be known ones; times and sizes may be so large that all of them can be added."""
    if kinds and not np.isin(values, (NONE, *kinds)).all():
        raise ValueError(f"{what} has a value of an unknown kind")
    if values.dtype == np.int64 and len(values) and not -LARGEST <= int(values.min()) <= int(values.max()) <= LARGEST:
        raise ValueError(f"{what} has a number that is too large")
    if "bytes" in what and float(np.sum(values, where=values > 0, dtype=np.float64)) > LARGEST:
        raise ValueError(f"{what} has sizes that are too large to be added")


def _check_ranges(ranges: Ranges) -> None:
    """In the order that the schema says, each after its parent."""
    if not len(ranges):
        return
    if ranges.thread.min() < 0:
        raise ValueError("a range has no thread")
    if (ranges.parent >= np.arange(len(ranges))).any():
        raise ValueError("a range precedes its parent")
    threads, starts = np.diff(ranges.thread), np.diff(ranges.start_ns)
    if ((threads < 0) | (threads == 0) & (starts < 0)).any():
        raise ValueError("ranges are not in the order of threads and starts")
    above = ranges.parent
    if (ranges.depth != np.where(above == NONE, 0, ranges.depth[above] + 1)).any() or ranges.depth.max() > MOST_DEEP:
        raise ValueError(f"the depth of a range is not that of its parent and one more, or above {MOST_DEEP:,}")
    if float(np.sum(ranges.end_ns - ranges.start_ns, dtype=np.float64)) > LARGEST:
        raise ValueError("the times of the ranges are too large to be added")
