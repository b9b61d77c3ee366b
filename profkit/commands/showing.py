"""Tables printed and files written, each as far as it goes: what failed comes back as words, nothing else is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TextIO

from profkit.attribution.attribute import usage_by
from profkit.attribution.device.groups import GROUPINGS as DEVICE_GROUPINGS
from profkit.attribution.device.usage import device_usage
from profkit.attribution.grouping import GROUPINGS
from profkit.attribution.usage import Usage
from profkit.capture.schema import PROFKIT, Capture
from profkit.cli import abandon_stdout
from profkit.commands.explain import print_explanations
from profkit.errors import ProfkitError
from profkit.measurement.result import Result
from profkit.rendering.atomic_write import write_atomically
from profkit.rendering.results.content import result_document
from profkit.rendering.results.records import render_csv
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.terminal import encodable
from profkit.rendering.usage.content import TableContext, View, build_table, surroundings
from profkit.rendering.usage.devices import device_surroundings
from profkit.rendering.usage.files import render_usage_csv, render_usage_json
from profkit.rendering.usage.tfprof import render_tfprof

TFPROF = "tfprof"


def groupings_of(capture: Capture) -> tuple[str, ...]:
    """What one row of its table can be, the default first; a program that used no GPU has no table of one."""
    if capture.recorder != PROFKIT:
        return (*DEVICE_GROUPINGS, *GROUPINGS)
    return (*GROUPINGS, *DEVICE_GROUPINGS) if capture.has_device else tuple(GROUPINGS)


def capture_reports(capture: Capture, by: str | None = None, **threads: Any) -> list[tuple[TableContext, Usage]]:
    """The table by one of its groupings; without one, a traced program that used a GPU has a table of that, too.

    `threads` are the further arguments of usage_by.
    """
    chosen = by or groupings_of(capture)[0]
    if chosen in DEVICE_GROUPINGS:
        return [_device_report(capture, chosen)]
    usage = usage_by(capture, chosen, **threads)
    reports = [(surroundings(capture, usage), usage)]
    if by is None and len(capture.activities):
        around, usage = _device_report(capture, next(iter(DEVICE_GROUPINGS)))
        # What was lost and what was damaged is told above the first.
        reports.append((replace(around, losses=[], warnings=[]), usage))
    return reports


def _device_report(capture: Capture, by: str) -> tuple[TableContext, Usage]:
    usage = device_usage(capture, by)
    return device_surroundings(capture, usage), usage


def show_usage(
    around: TableContext,
    usage: Usage,
    view: View,
    layout: str,
    files: Mapping[str, str],
    stream: TextIO | None = None,
) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were."""
    out = sys.stdout if stream is None else stream
    table = build_table(usage, view, around)

    def show() -> None:
        if layout != TFPROF:
            return table.print(out)
        above = "".join(f"{line}\n" for line in (*around.losses, *around.warnings, *around.instead))
        out.write(encodable(above + render_tfprof(usage, view), out))
        return None

    texts = {
        "json": lambda: render_usage_json(usage),
        "csv": lambda: render_usage_csv(usage),
        "markdown": table.markdown,
    }
    _show(show, out, texts, files)


def show_result(result: Result, columns: Sequence[str] | None, is_verbose: bool, files: Mapping[str, str]) -> None:
    """The same for what an operator's command measured."""
    out = sys.stdout
    document = result_document(result, columns, is_verbose)

    def show() -> None:
        document.print(out)
        print_explanations(result, out)

    texts = {
        "json": lambda: render_json(result.to_dict()),
        "csv": lambda: render_csv(result),
        "markdown": document.markdown,
    }
    _show(show, out, texts, files)


def _show(
    show: Callable[[], None], out: TextIO, texts: Mapping[str, Callable[[], str]], files: Mapping[str, str]
) -> None:
    def write(kind: str, path: str) -> None:
        write_atomically(path, texts[kind]())

    problems = printed(show, out) + written(partial(write, kind, path) for kind, path in files.items())
    if problems:
        raise ProfkitError("\n".join(problems))


def printed(print_all: Callable[[], None], out: TextIO) -> list[str]:
    """A reader that went away is no problem; a full disk is one, which must not cost the files."""
    try:
        print_all()
        out.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        return [f"could not print the table: {error.strerror or error}"]
    return []


def written(jobs: Iterable[Callable[[], None]]) -> list[str]:
    """Each job writes a file; one that fails does not cost the others."""
    problems = []
    for job in jobs:
        try:
            job()
        except ProfkitError as error:
            problems.append(str(error))
    return problems
