"""GPU traces shown and saved: a trace and a choice of rows and columns in, text and files out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from profkit.attribution.device_usage import device_usage
from profkit.attribution.usage import Usage
from profkit.capture.device_trace import DeviceTrace
from profkit.cli import abandon_stdout
from profkit.errors import ProfkitError
from profkit.rendering.device_content import device_surroundings, warning_lines
from profkit.rendering.table import encodable
from profkit.rendering.usage_content import View
from profkit.rendering.usage_files import render_report_markdown, write_usage_csv, write_usage_json
from profkit.rendering.usage_text import print_report
from profkit.rendering.usage_tfprof import render_tfprof
from profkit.rendering.whole_file import write_whole


def print_device_trace(
    trace: DeviceTrace, by: str, view: View, layout: str, files: Mapping[str, str], stream: TextIO | None = None
) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were."""
    usage = device_usage(trace, by)
    out = sys.stdout if stream is None else stream
    problems = _printed(trace, usage, view, layout, out) + _written(trace, usage, view, files)
    if problems:
        raise ProfkitError("\n".join(problems))


def _printed(trace: DeviceTrace, usage: Usage, view: View, layout: str, out: TextIO) -> list[str]:
    try:
        if layout == "tfprof":
            lines = "".join(f"{line}\n" for line in warning_lines(trace))
            out.write(encodable(lines + render_tfprof(usage, view), out))
        else:
            print_report(device_surroundings(trace, usage), usage, view, out)
        out.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        return [f"could not print the table: {error.strerror or error}"]
    return []


def _written(trace: DeviceTrace, usage: Usage, view: View, files: Mapping[str, str]) -> list[str]:
    writers: dict[str, Callable[[str], None]] = {
        "json": lambda path: write_usage_json(usage, path),
        "csv": lambda path: write_usage_csv(usage, path),
        "markdown": lambda path: write_whole(
            path, render_report_markdown(device_surroundings(trace, usage), usage, view)
        ),
    }
    problems = []
    for kind, path in files.items():
        try:
            writers[kind](path)
        except ProfkitError as error:
            problems.append(str(error))
    return problems
