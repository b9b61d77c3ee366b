"""`python -m profkit.query run.profkit "select ..."`: SQL on a run or a result, answered by a table or a file."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture.output_files import check_targets
from profkit.cli import guarded
from profkit.commands.arguments import Parser, made_options
from profkit.commands.opening import LossOptions, Opened, add_capture_argument, open_any, trouble_lines
from profkit.errors import UsageError
from profkit.measurement.options import FOLDER, OPTIONS, WHOLE, option
from profkit.rendering.quantities import ABSENT
from profkit.rendering.sql.database import (
    copy_to,
    failures_named,
    folder_beside,
    folder_for,
    put_in_place,
    require_duckdb,
    schema_of,
    sql_errors_as_usage,
)
from profkit.rendering.sql.tables import open_tables, table_names, write_parquet
from profkit.rendering.tables.csv_file import write_rows
from profkit.rendering.tables.json_file import escaped
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    import duckdb

_ROWS_AT_ONCE = 100_000
LEAST_TEXT_WIDTH = 12
FORMATS = {"csv": "", "json": "format json, array true", "parquet": "format parquet"}
EXAMPLES = """examples:
  profkit query run.profkit "select title, count(*), sum(duration_ns) from ranges group by 1"
  profkit query run.profkit "select thread_name, max(depth) from ranges group by 1" --csv depth.csv
  profkit query net.profkit "select layer, sum(wall_ns) from ranges where process = 0 group by 1"
  profkit query trace.json.gz "select range_name, sum(duration_ns) from activities group by 1"
  profkit query report.sqlite "select direction, sum(bytes) from copies group by 1"
  profkit query result.json "select key, median_ns, verdict from rows order by 2"
  profkit query run.profkit --tables
  profkit query run.profkit --parquet-folder run_tables

exit codes: 0 answered, 1 the run or a file cannot be used, 2 wrong usage or wrong SQL, \
5 with --fail-on-loss: records were lost, or a program ran unrecorded"""


@dataclass(frozen=True)
class QueryOptions(LossOptions):
    tables: bool = option(False, OPTIONS, "show the tables and their columns")
    rows: int = option(100, OPTIONS, "print at most N rows", form=WHOLE)
    csv: str | None = option(None, OPTIONS, "save the answer as CSV instead of printing")
    json: str | None = option(None, OPTIONS, "save the answer as JSON instead of printing")
    parquet: str | None = option(None, OPTIONS, "save the answer as Parquet instead of printing")
    parquet_folder: str | None = option(None, OPTIONS, "save every table as FOLDER/<table>.parquet", form=FOLDER)


def _run(words: Sequence[str]) -> int:
    arguments = _build_parser().parse(words)
    options = made_options(QueryOptions, arguments)
    sql = arguments.sql.strip()
    targets = _checked_targets(sql, options)
    require_duckdb()
    check_targets(targets.values(), [options.parquet_folder], [arguments.capture])
    run = open_any(arguments.capture)
    for sentence in trouble_lines(run):
        say(sentence, sys.stderr)
    if options.tables:
        _print_tables(run)
    if options.parquet_folder:
        for path in write_parquet(run, options.parquet_folder):
            say(f"wrote {path} ({os.path.getsize(path):,} bytes)")
    if sql:
        statement = _single_statement(sql)
        if not targets:
            _print_answer(open_tables(run), statement, options.rows)
        for name, target in targets.items():
            _save(run, statement, name, target)
    return options.exit_code(run)


def _build_parser() -> Parser:
    parser = Parser("profkit query", "SQL (DuckDB) on the tables of a run or a result.", EXAMPLES)
    parser.usage = 'profkit query CAPTURE "SELECT ..." [flags]'
    add_capture_argument(parser)
    parser.add_argument("sql", metavar="SQL", nargs="?", default="", help="one query; --tables lists the tables")
    parser.add_options(QueryOptions)
    return parser


def _checked_targets(sql: str, options: QueryOptions) -> dict[str, str]:
    """The files of the answer, by format; UsageError where there is no query to answer."""
    targets = {name: path for name in FORMATS if (path := getattr(options, name))}
    if targets and not sql:
        raise UsageError("--csv, --json and --parquet save the answer of a query: give one, or use --parquet-folder")
    if not (sql or options.tables or options.parquet_folder):
        raise UsageError('no query: give one, as "select * from ranges limit 5", or --tables')
    if options.rows < 1:
        raise UsageError(f"--rows {options.rows}: must be at least 1")
    return targets


def _single_statement(sql: str) -> str:
    import duckdb

    with sql_errors_as_usage():
        statements = duckdb.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError(f"one query at a time, got {len(statements)}")
    return str(statements[0].query).strip().rstrip(";")


def _print_answer(database: duckdb.DuckDBPyConnection, sql: str, limit: int) -> None:
    with sql_errors_as_usage():
        cursor = database.execute(sql)
        names = [str(column[0]) for column in cursor.description or ()]
        rows: list[tuple[Any, ...]] = cursor.fetchmany(limit + 1)
        more = max(0, len(rows) - limit)
        while chunk := cursor.fetchmany(_ROWS_AT_ONCE):
            more += len(chunk)
    answer_table(names, rows[:limit]).print(sys.stdout)
    if more:
        say(f"{more:,} more rows (--rows {limit + more}, or --csv FILE)")


def answer_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Texts are shortened in their middle if need be, numbers never; what does not fit then continues below."""
    columns = []
    for number, name in enumerate(names):
        present = [row[number] for row in rows if row[number] is not None]
        is_number = present and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) for value in present
        )
        width = 0 if is_number else max(LEAST_TEXT_WIDTH, len(name))
        columns.append(TableColumn(name, name, is_text=not is_number, least_width=width))
    return Table(
        columns=columns,
        lines=[Line(tuple(map(_text, row))) for row in rows],
        instead=[f"no rows; columns: {', '.join(names)}"],
        is_dense=False,
        records=lambda: [dict(zip(names, row)) for row in rows],
    )


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _save(run: Opened, sql: str, name: str, target: str) -> None:
    with folder_beside(folder_for(target)) as scratch:
        unfinished = Path(scratch) / f"answer.{name}"
        with sql_errors_as_usage(), failures_named(target):
            if name == "csv":
                _write_csv(open_tables(run, scratch).execute(sql), unfinished)
            else:
                copy_to(open_tables(run, scratch), sql, unfinished, FORMATS[name])
            finished = _escaped(unfinished) if name == "json" else unfinished
        put_in_place(finished, target)


def _write_csv(cursor: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Rows as they come: an answer may be larger than memory."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        write_rows(writer, [[str(column[0]) for column in cursor.description or ()]])
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            write_rows(writer, rows)


def _escaped(path: Path) -> Path:
    """A copy of the file of JSON in which every sign can be seen."""
    copy = path.with_suffix(".escaped")
    with path.open(encoding="utf-8", newline="") as source, copy.open("w", encoding="utf-8", newline="") as target:
        while text := source.read(1 << 20):
            target.write(escaped(text))
    return copy


def _print_tables(run: Opened) -> None:
    database = open_tables(run)
    for table in table_names(run):
        count = database.execute(f"select count(*) from {table}").fetchone()
        say(f"{table} ({count[0] if count else 0:,} rows)")
        for column, kind in schema_of(database, table):
            say(f"  {column:22} {kind}")


main = partial(guarded, "query", _run)

if __name__ == "__main__":
    raise SystemExit(main())
