"""Whatever was opened as SQL tables: a capture, run or result in; its database, or a Parquet file per table, out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.errors import UsageError
from profkit.measurement.result import Result
from profkit.rendering.sql.captures import RUN_TABLES, TABLES, open_database
from profkit.rendering.sql.database import copy_to, failures_named, folder_beside
from profkit.rendering.sql.results import RESULT_TABLES, open_result_database

if TYPE_CHECKING:
    import duckdb


def open_tables(opened: Capture | Run | Result, writable_folder: str = "") -> duckdb.DuckDBPyConnection:
    """An in-memory database, which reads and writes no file outside the folder."""
    if isinstance(opened, Result):
        return open_result_database(opened, writable_folder)
    if isinstance(opened, Run):
        return open_database(opened.whole(), writable_folder, opened)
    return open_database(opened, writable_folder)


def table_names(opened: Capture | Run | Result) -> Sequence[str]:
    """Its tables, the most used first."""
    if isinstance(opened, Result):
        return RESULT_TABLES
    return (*TABLES, *RUN_TABLES) if isinstance(opened, Run) else TABLES


def write_parquet(opened: Capture | Run | Result, folder: str) -> list[str]:
    """Every table as `<folder>/<table>.parquet`, made whole before it replaces one that is there; gives the paths."""
    target = Path(folder)
    is_new = not target.exists()
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write into {target}: {error.strerror or error}") from None
    names = [f"{table}.parquet" for table in table_names(opened)]
    try:
        with folder_beside(target) as scratch:
            database = open_tables(opened, scratch)
            for name in names:
                with failures_named(target / name):
                    copy_to(database, f"select * from {Path(name).stem}", Path(scratch) / name, "format parquet")
            for name in names:
                with failures_named(target / name):
                    os.replace(Path(scratch) / name, target / name)
    except BaseException:
        if is_new:
            with suppress(OSError):  # it holds what was finished
                target.rmdir()
        raise
    return [str(target / name) for name in names]
