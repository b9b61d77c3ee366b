"""`python -m profkit.query run.profkit "select ..."`: SQL on a run or a result, answered by a table or a file."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.cli import guarded
from profkit.errors import UsageError
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    import duckdb

    from profkit.commands.opening import Opened

_ROWS_AT_ONCE = 100_000
FORMATS = {"csv": "", "json": "format json, array true", "parquet": "format parquet"}
DEFAULT_ROWS = 100
EXAMPLES = """examples:
  profkit query run.profkit "select title, count(*), sum(duration_ns) from ranges group by 1 order by 3 desc"
  profkit query run.profkit "select thread_name, max(depth) from ranges group by 1" --csv depth.csv
  profkit query network.profkit "select layer, phase, sum(wall_ns) from ranges where process = 0 group by all"
  profkit query trace.json.gz "select range_name, sum(duration_ns) from activities group by 1 order by 2 desc"
  profkit query report.sqlite "select direction, sum(bytes), sum(duration_ns) from copies group by 1"
  profkit query result.json "select key, median_ns, verdict from rows order by 2"
  profkit query run.profkit --tables
  profkit query run.profkit --parquet-folder run_tables

exit codes: 0 answered, 1 the run or a file cannot be used, 2 wrong usage or wrong SQL,
  5 with --fail-on-loss: records were lost, or a program ran unrecorded"""


def write_parquet(run: Opened, folder: str) -> list[str]:
    """Every table of the run as a Parquet file in the folder; gives their paths."""
    from profkit.rendering.sql.database import write_tables

    return write_tables(lambda scratch: _database(run, scratch), _table_names(run), folder)


def run_query(words: Sequence[str]) -> int:
    """Answer one query, or show or save the tables."""
    from profkit.commands.opening import loss_code, open_any, trouble_lines
    from profkit.rendering.atomic_write import check_targets
    from profkit.rendering.sql.database import require_duckdb

    arguments = _parse(words)
    require_duckdb()
    targets = {name: getattr(arguments, name) for name in FORMATS if getattr(arguments, name)}
    check_targets(targets.values(), folders=[arguments.parquet_folder])
    run = open_any(arguments.capture)
    for sentence in trouble_lines(run):
        say(sentence, sys.stderr)
    if arguments.tables:
        _print_tables(run)
    if arguments.parquet_folder:
        for path in write_parquet(run, arguments.parquet_folder):
            say(f"wrote {path} ({os.path.getsize(path):,} bytes)")
    if arguments.sql:
        _answer(run, arguments, targets)
    return loss_code(run, arguments)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    from profkit.commands.arguments import Parser
    from profkit.commands.opening import add_capture_argument, add_loss_argument

    parser = Parser("profkit query", "SQL (DuckDB) on the tables of a run or a result.", EXAMPLES)
    parser.usage = 'profkit query CAPTURE "SELECT ..." [flags]'
    add_capture_argument(parser)
    parser.add_argument("sql", metavar="SQL", nargs="?", default="", help="one query; see --tables for what is there")
    parser.add_argument("--tables", action="store_true", help="show the tables and their columns")
    parser.add_argument("--rows", metavar="N", type=int, default=DEFAULT_ROWS, help="print at most N rows (100)")
    for name in FORMATS:
        parser.add_argument(f"--{name}", metavar="FILE", help=f"save the answer as {name.upper()} instead of printing")
    parser.add_argument("--parquet-folder", metavar="DIR", help="save every table as DIR/<table>.parquet")
    add_loss_argument(parser)
    arguments = parser.parse(words)
    if not arguments.sql.strip() and any(getattr(arguments, name) for name in FORMATS):
        raise UsageError("--csv, --json and --parquet save the answer of a query: give one, or use --parquet-folder")
    if not (arguments.sql.strip() or arguments.tables or arguments.parquet_folder):
        raise UsageError('nothing asked: give a query, as "select * from ranges limit 5", or --tables')
    if arguments.rows < 1:
        raise UsageError(f"--rows {arguments.rows}: must be at least 1")
    return arguments


def _database(run: Opened, writable_folder: str = "") -> duckdb.DuckDBPyConnection:
    from profkit.capture.run import Run
    from profkit.measurement.result import Result
    from profkit.rendering.sql.captures import open_database
    from profkit.rendering.sql.results import open_result_database

    if isinstance(run, Result):
        return open_result_database(run, writable_folder)
    if isinstance(run, Run):
        return open_database(run.whole(), writable_folder, run)
    return open_database(run, writable_folder)


def _table_names(run: Opened) -> Sequence[str]:
    from profkit.capture.run import Run
    from profkit.measurement.result import Result
    from profkit.rendering.sql.captures import RUN_TABLES, TABLES
    from profkit.rendering.sql.results import RESULT_TABLES

    if isinstance(run, Result):
        return RESULT_TABLES
    return (*TABLES, *RUN_TABLES) if isinstance(run, Run) else TABLES


def _answer(run: Opened, arguments: argparse.Namespace, targets: dict[str, str]) -> None:
    sql = _single_statement(arguments.sql)
    if not targets:
        _print_answer(_database(run), sql, arguments.rows)
    for name, target in targets.items():
        _save(run, sql, name, target)


def _single_statement(sql: str) -> str:
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(str(error)) from None
    if len(statements) != 1:
        raise UsageError(f"one query at a time, got {len(statements)}")
    return str(statements[0].query).strip().rstrip(";")


def _print_answer(database: duckdb.DuckDBPyConnection, sql: str, limit: int) -> None:
    import duckdb

    from profkit.rendering.sql.answers import answer_table

    try:
        cursor = database.execute(sql)
        names = [str(column[0]) for column in cursor.description or ()]
        rows: list[tuple[Any, ...]] = cursor.fetchmany(limit + 1)
        beyond = len(rows) > limit
        more = len(rows) - limit + _count_rest(cursor) if beyond else 0
    except duckdb.Error as error:
        raise UsageError(str(error)) from None
    answer_table(names, rows[:limit]).print(sys.stdout)
    if more:
        say(f"{more:,} more rows (--rows {limit + more}, or --csv FILE)")


def _count_rest(cursor: duckdb.DuckDBPyConnection) -> int:
    count = 0
    while chunk := cursor.fetchmany(_ROWS_AT_ONCE):
        count += len(chunk)
    return count


def _save(run: Opened, sql: str, name: str, target: str) -> None:
    import duckdb

    from profkit.rendering.sql.database import copy_to, folder_for, put_in_place, scratch_folder

    with scratch_folder(folder_for(target)) as scratch:
        unfinished = Path(scratch) / f"answer.{name}"
        try:
            if name == "csv":
                _write_csv(_database(run, scratch).execute(sql), unfinished)
            else:
                copy_to(_database(run, scratch), sql, unfinished, FORMATS[name])
            if name == "json":
                unfinished = _escaped(unfinished)
        except duckdb.Error as error:
            raise UsageError(str(error)) from None
        put_in_place(unfinished, target)


def _write_csv(cursor: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Rows as they come: an answer may be larger than memory."""
    import csv

    from profkit.rendering.tables.csv_file import write_rows

    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        write_rows(writer, [[str(column[0]) for column in cursor.description or ()]])
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            write_rows(writer, rows)


def _escaped(path: Path) -> Path:
    """A copy of the file of JSON in which every sign can be seen."""
    from profkit.rendering.tables.json_file import escaped

    copy = path.with_suffix(".escaped")
    with path.open(encoding="utf-8", newline="") as source, copy.open("w", encoding="utf-8", newline="") as target:
        while text := source.read(1 << 20):
            target.write(escaped(text))
    return copy


def _print_tables(run: Opened) -> None:
    from profkit.rendering.sql.database import schema_of

    database = _database(run)
    for table in _table_names(run):
        count = database.execute(f"select count(*) from {table}").fetchone()
        say(f"{table} ({count[0] if count else 0:,} rows)")
        for column, kind in schema_of(database, table):
            say(f"  {column:22} {kind}")


main = partial(guarded, "query", run_query)

if __name__ == "__main__":
    raise SystemExit(main())
