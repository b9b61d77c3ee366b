"""The SQLite file of an Nsight Systems export: tables and columns that may be there in, columns of integers out."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np

from profkit.capture.schema import NONE, Column
from profkit.capture.trace_tables import LARGEST
from profkit.errors import TraceError

_ROWS_AT_ONCE = 100_000
_TELLING_TABLES = ("META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "NVTX_EVENTS", "ENUM_NSYS_EVENT_TYPE")
_FACTS = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "DERIVED_WINDOW_NS")
_WARNING_LEVEL = 2  # of ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 information, 2 warning, 3 error, 4 fatal
_DIAGNOSTICS_SHOWN = 5
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BEING_WRITTEN = ("-journal", "-wal")
"""What SQLite keeps beside a file as long as it is written."""
LONGEST_TEXT = 1 << 20
"""Bytes of a text: kernels of templates have names of some hundred thousand."""
_LONGEST_MESSAGE = 2000
_STEPS_AT_ONCE = 1_000_000
_STEPS_PER_BYTE = 40
"""Steps of SQLite's machine that a question may take for each byte of the file. A row has some bytes and takes about 20
steps; a file whose pages hold each other has more rows than bytes, and would be read for ever."""
_LONGEST_VALUE = 64 << 20


class NsightDatabase:
    """Opened read-only; nothing in the file is trusted to be there or to have the type that the schema says."""

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):
            raise TraceError(f"cannot read {path}: no such file")
        for ending in _BEING_WRITTEN:
            if os.path.exists(path + ending) and os.path.getsize(path + ending):
                raise TraceError(f"{path} is being written, or was left in the middle: {path}{ending} belongs to it")
        # Immutable: an export in a folder that cannot be written is read as well, and no journal is left beside it.
        self._connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # Nothing of the file's own is run: views and triggers could do anything, functions in them too.
        self._connection.execute("pragma trusted_schema = off")
        if sys.version_info >= (3, 11):
            # A value is in memory as a whole before SQLite cuts it.
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        self._steps_left = 0
        self._most_steps = _STEPS_AT_ONCE + _STEPS_PER_BYTE * os.path.getsize(path)
        self._connection.set_progress_handler(self._is_endless, _STEPS_AT_ONCE)
        self.warnings: list[str] = []

    def close(self) -> None:
        self._connection.close()

    def is_nsight(self) -> bool:
        """Whether any table that only such an export has is there."""
        return any(name in _TELLING_TABLES or name.startswith("CUPTI_") for name in self._columns)

    def _is_endless(self) -> bool:
        self._steps_left -= _STEPS_AT_ONCE
        return self._steps_left < 0

    def _ask(self, question: str) -> sqlite3.Cursor:
        self._steps_left = self._most_steps
        return self._connection.execute(question)

    @cached_property
    def _columns(self) -> Mapping[str, frozenset[str]]:
        """Tables alone: a view is a question, and a virtual table a program."""
        found = self._ask("select name, sql from sqlite_master where type = 'table' limit 10000").fetchall()
        plain = [
            str(name)
            for name, sql in found
            if _PLAIN_NAME.fullmatch(str(name)) and str(sql).lstrip().lower().startswith("create table")
        ]
        return {name: frozenset(str(row[1]) for row in self._ask(f"pragma table_info({name})")) for name in plain}

    @cached_property
    def strings(self) -> Mapping[int, str]:
        return {number: text for number, text in self.rows("StringIds", "id", "value") if isinstance(text, str)}

    def has(self, table: str, column: str) -> bool:
        return column in self._columns.get(table, ())

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows with integers and texts as they are, these cut where they are too long; None for everything else.

        Nothing for a table that is missing.
        """
        if table not in self._columns:
            return iter(())
        chosen = ", ".join(self._value(name) if self.has(table, name) else "null" for name in columns)
        return iter(self._ask(f"select {chosen} from {table}"))

    def _value(self, column: str) -> str:
        kind = f'typeof("{column}")'
        return (
            f"""case {kind} when 'integer' then "{column}" when 'text' then substr("{column}", 1, {LONGEST_TEXT}) end"""
        )

    def table(self, table: str, wanted: Mapping[str, str], ends: bool = True) -> dict[str, Column]:
        """Columns of integers under the names of `wanted`; NONE for what is missing, null or no integer.

        Rows without a usable time (`start`, and with `ends` also `end`) are left out and counted.
        """
        if table not in self._columns:
            return {name: np.zeros(0, np.int64) for name in wanted}
        chosen = ", ".join(self._integer(table, column) for column in wanted.values())
        good = self._has_time(table, ends)
        cursor = self._ask(f"select {chosen} from {table} where {good}")
        parts = [np.zeros((0, len(wanted)), np.int64)]
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            parts.append(np.array(rows, np.int64))
        found = np.concatenate(parts)
        (lost,) = self._ask(f"select count(*) from {table} where not ({good})").fetchone()
        if lost:
            self.warnings.append(
                f"{lost:,} records of {table} are left out: without a time, or with an end before the start"
            )
        return {name: np.ascontiguousarray(found[:, number]) for number, name in enumerate(wanted)}

    def _integer(self, table: str, column: str) -> str:
        quoted = f'"{column}"'
        return f"iif(typeof({quoted}) = 'integer', {quoted}, {NONE})" if self.has(table, column) else str(NONE)

    def _has_time(self, table: str, ends: bool) -> str:
        if not self.has(table, "start") or (ends and not self.has(table, "end")):
            return "false"
        good = f"typeof(start) = 'integer' and abs(start / 2) < {LARGEST // 2}"
        if ends:
            good += f""" and typeof("end") = 'integer' and "end" >= start and "end" / 2 < {LARGEST // 2}"""
        return good

    def facts(self) -> dict[str, Any]:
        """Versions, and the window of an export that is part of a longer one."""
        found = {str(name): value for name, value in self.rows("META_DATA_EXPORT", "name", "value")}
        facts: dict[str, Any] = {
            name.lower(): str(found[name])[:_LONGEST_MESSAGE] for name in _FACTS if found.get(name) is not None
        }
        overhead = self.table("CUPTI_ACTIVITY_KIND_OVERHEAD", {"start": "start", "end": "end"})
        waits = self.table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"start": "start", "end": "end"})
        for name, table in (("overhead", overhead), ("synchronisations", waits)):
            facts[f"{name}_records"] = len(table["start"])
            facts[f"{name}_ns"] = int((table["end"] - table["start"]).sum())
        return facts

    def diagnostics(self) -> list[str]:
        """What Nsight itself complained of while it recorded."""
        rows = self.rows("DIAGNOSTIC_EVENT", "severity", "text")
        texts = [
            str(text)[:_LONGEST_MESSAGE]
            for severity, text in rows
            if isinstance(severity, int) and severity >= _WARNING_LEVEL and text
        ]
        lines = [f"Nsight Systems said: {' '.join(text.split())}" for text in dict.fromkeys(texts)]
        more = len(lines) - _DIAGNOSTICS_SHOWN
        return lines if more <= 0 else [*lines[:_DIAGNOSTICS_SHOWN], f"and {more:,} more messages of Nsight Systems"]
