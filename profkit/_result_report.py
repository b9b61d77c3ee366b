"""Results shown and saved: a Result and a choice of columns in, text and files out.

An operator's command calls it after a measurement, profkit.report for a saved file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TextIO

from profkit._explain import print_explanations
from profkit._showing import printed, written
from profkit.errors import ProfkitError
from profkit.measurement.result import Result
from profkit.rendering.csv_file import write_csv
from profkit.rendering.json_file import write_json
from profkit.rendering.markdown import write_markdown
from profkit.rendering.table import print_result


def print_results(result: Result, columns: Sequence[str] | None, is_verbose: bool, files: Mapping[str, str]) -> None:
    """Print the tables, then write the files (json, csv, markdown); what cannot be written is told after all others."""
    out = sys.stdout
    problems = printed(lambda: _print(result, columns, is_verbose, out), out)
    writers: dict[str, Callable[[str], None]] = {
        "json": lambda path: write_json(result, path),
        "csv": lambda path: write_csv(result, path),
        "markdown": lambda path: write_markdown(result, path, columns, is_verbose),
    }
    problems += written(partial(writers[kind], path) for kind, path in files.items())
    if problems:
        raise ProfkitError("\n".join(problems))


def _print(result: Result, columns: Sequence[str] | None, is_verbose: bool, out: TextIO) -> None:
    print_result(result, out, columns, is_verbose)
    print_explanations(result, out)
