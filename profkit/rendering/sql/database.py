"""DuckDB for captures: a connection that reaches nothing outside, and files made whole from its answers."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture.checked_json import whole_text
from profkit.capture.output_files import is_stream, open_output
from profkit.errors import ProfkitError, UnavailableError, UsageError, first_line

if TYPE_CHECKING:
    import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    require_duckdb()
    import duckdb

    # All it can do is built in; what is not must not be fetched from somewhere.
    settings: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(":memory:", config=settings)


def lock(database: duckdb.DuckDBPyConnection, writable_folder: str) -> None:
    """From now on it reads and writes no file outside the folder, loads no extension and reaches no network."""
    if writable_folder:
        quoted = os.path.realpath(writable_folder).replace("'", "''")
        database.execute(f"set allowed_directories = ['{quoted}/']")
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")


def add_table(
    database: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """A table of these columns, each with its type; rows have their values in this order."""
    listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())
    database.execute(f"create table {name} ({listed})")
    if rows:
        # Names of files may hold bytes that are not text.
        whole = [tuple(whole_text(value) if isinstance(value, str) else value for value in row) for row in rows]
        database.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", whole)


def quoted(name: str) -> str:
    """A name that may hold any sign."""
    return '"' + name.replace('"', '""') + '"'


def schema_of(database: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    described = database.execute(f"describe {table}").fetchall()
    return [(str(row[0]), str(row[1]).lower()) for row in described]


def copy_to(database: duckdb.DuckDBPyConnection, query: str, path: Path, options: str) -> None:
    escaped = str(path).replace("'", "''")
    database.execute(f"copy ({query}\n) to '{escaped}' ({options})")


@contextmanager
def failures_named(target: str | Path) -> Iterator[None]:
    """What cannot be written in the block as a ProfkitError of the target: its unfinished form has another name."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, OSError) as error:
        raise ProfkitError(f"could not write {target}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The system's; DuckDB's message has its number in the middle of other text."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    number = re.search(r'"errno":"(\d+)"', str(error))
    return os.strerror(int(number[1])) if number else first_line(error)


@contextmanager
def sql_errors_as_usage() -> Iterator[None]:
    """DuckDB's errors as UsageErrors: the query is wrong."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise UsageError(str(error)) from None


@contextmanager
def folder_beside(beside: Path) -> Iterator[str]:
    """A folder for unfinished files on the same disk, gone afterwards."""
    try:
        name = tempfile.mkdtemp(prefix=".profkit-", dir=beside)
    except OSError as error:
        raise UsageError(f"cannot write into {beside}: {error.strerror or error}") from None
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


def folder_for(target: str) -> Path:
    """Where the unfinished form of a file belongs: beside it, so that renaming is enough; for a stream anywhere."""
    return Path(tempfile.gettempdir()) if is_stream(target) else Path(os.path.realpath(target)).parent


def put_in_place(finished: Path, target: str) -> None:
    """Rename a finished file over its target (the file that a link names), or write it into a stream."""
    try:
        if not is_stream(target):
            os.replace(finished, os.path.realpath(target))
            return
        with finished.open("rb") as source, open_output(target) as stream:
            shutil.copyfileobj(source, stream)
    except OSError as error:
        raise ProfkitError(f"could not write {target}: {error.strerror or error}") from error


def require_duckdb() -> None:
    """UnavailableError with the line to type when DuckDB is not installed."""
    if importlib.util.find_spec("duckdb") is None:
        raise UnavailableError('SQL needs DuckDB; type: pip install "profkit[query]"')
