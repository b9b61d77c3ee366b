"""The SQLite file of an Nsight Systems export: tables and columns that may be there in, columns of integers out."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import TracebackType
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
_PLAIN_NAME = re.compile(r"\w+")


class NsightDatabase:
    """Opened read-only; nothing in the file is trusted to be there or to have the type that the schema says."""

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):
            raise TraceError(f"cannot read {path}: no such file")
        # Immutable: an export in a folder that cannot be written is read as well, and no journal is left beside it.
        self._connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self.warnings: list[str] = []

    def __enter__(self) -> NsightDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def is_nsight(self) -> bool:
        """Whether any table that only such an export has is there."""
        return any(name in _TELLING_TABLES or name.startswith("CUPTI_") for name in self._columns)

    @cached_property
    def _columns(self) -> Mapping[str, frozenset[str]]:
        names = [str(row[0]) for row in self._connection.execute("select name from sqlite_master where type = 'table'")]
        plain = [name for name in names if _PLAIN_NAME.fullmatch(name)]
        return {
            name: frozenset(str(row[1]) for row in self._connection.execute(f"pragma table_info({name})"))
            for name in plain
        }

    @cached_property
    def strings(self) -> Mapping[int, str]:
        """The export's texts by their numbers."""
        return {number: str(text) for number, text in self.rows("StringIds", "id", "value")}

    def has(self, table: str, column: str) -> bool:
        """Whether the table exists and has this column."""
        return column in self._columns.get(table, ())

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows as they are; None for a column that is missing, nothing for a table that is."""
        if table not in self._columns:
            return iter(())
        chosen = ", ".join(f'"{name}"' if self.has(table, name) else "null" for name in columns)
        return iter(self._connection.execute(f"select {chosen} from {table}"))

    def table(self, table: str, wanted: Mapping[str, str], where: str = "true", ends: bool = True) -> dict[str, Column]:
        """Columns of integers under the names of `wanted`; NONE for what is missing, null or no integer.

        Rows without a usable time (`start`, and with `ends` also `end`) are left out and counted.
        """
        if table not in self._columns:
            return {name: np.zeros(0, np.int64) for name in wanted}
        chosen = ", ".join(self._integer(table, column) for column in wanted.values())
        good = self._has_time(table, ends)
        cursor = self._connection.execute(f"select {chosen} from {table} where ({where}) and ({good})")
        parts = [np.zeros((0, len(wanted)), np.int64)]
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            parts.append(np.array(rows, np.int64))
        found = np.concatenate(parts)
        self._count_lost(table, f"({where}) and not ({good})")
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

    def _count_lost(self, table: str, condition: str) -> None:
        (lost,) = self._connection.execute(f"select count(*) from {table} where {condition}").fetchone()
        if lost:
            self.warnings.append(
                f"{lost:,} records of {table} are left out: without a time, or with an end before the start"
            )

    def facts(self) -> dict[str, Any]:
        """Versions, and the window of an export that is part of a longer one."""
        found = {str(name): value for name, value in self.rows("META_DATA_EXPORT", "name", "value")}
        facts: dict[str, Any] = {name.lower(): str(found[name]) for name in _FACTS if name in found}
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
            str(text) for severity, text in rows if isinstance(severity, int) and severity >= _WARNING_LEVEL and text
        ]
        lines = [f"Nsight Systems said: {' '.join(text.split())}" for text in dict.fromkeys(texts)]
        more = len(lines) - _DIAGNOSTICS_SHOWN
        return lines if more <= 0 else [*lines[:_DIAGNOSTICS_SHOWN], f"and {more:,} more messages of Nsight Systems"]
