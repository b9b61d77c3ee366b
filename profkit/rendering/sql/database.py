"""DuckDB for captures: a connection that reaches nothing outside, and files made whole from its answers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.errors import ProfkitError, UnavailableError, UsageError
from profkit.rendering.atomic_write import atomic_write, is_stream

if TYPE_CHECKING:
    import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database in memory."""
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
        database.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", rows)


def quoted(name: str) -> str:
    """A name that may hold any sign."""
    return '"' + name.replace('"', '""') + '"'


def schema_of(database: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str, str]]:
    """Names and types of a table's columns."""
    described = database.execute(f"describe {table}").fetchall()
    return [(str(row[0]), str(row[1]).lower()) for row in described]


def write_tables(
    open_database: Callable[[str], duckdb.DuckDBPyConnection], tables: Sequence[str], folder: str | os.PathLike[str]
) -> list[str]:
    """Every table as `<folder>/<table>.parquet`, made whole before it replaces one that is there; gives the paths.

    `open_database` gets the folder in which the database may write.
    """
    target = Path(folder)
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write into {target}: {error.strerror or error}") from None
    with scratch_folder(target) as scratch:
        database = open_database(scratch)
        for table in tables:
            copy_to(database, f"select * from {table}", Path(scratch) / f"{table}.parquet", "format parquet")
        for table in tables:
            os.replace(Path(scratch) / f"{table}.parquet", target / f"{table}.parquet")
    return [str(target / f"{table}.parquet") for table in tables]


def copy_to(database: duckdb.DuckDBPyConnection, query: str, path: Path, options: str) -> None:
    """The answer of a query as a file."""
    import duckdb

    quoted = str(path).replace("'", "''")
    try:
        database.execute(f"copy ({query}\n) to '{quoted}' ({options})")
    except (duckdb.IOException, OSError) as error:
        raise ProfkitError(f"could not write {path.name}: {error}") from error


@contextmanager
def scratch_folder(beside: Path) -> Iterator[str]:
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
        with finished.open("rb") as source, atomic_write(target) as stream:
            shutil.copyfileobj(source, stream)
    except OSError as error:
        raise ProfkitError(f"could not write {target}: {error.strerror or error}") from error


def require_duckdb() -> None:
    """UnavailableError with the line to type when DuckDB is not installed."""
    if importlib.util.find_spec("duckdb") is None:
        raise UnavailableError('SQL needs DuckDB; type: pip install "profkit[query]"')
