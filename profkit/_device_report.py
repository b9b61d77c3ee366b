"""GPU traces shown and saved: a trace and a choice of rows and columns in, text and files out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TextIO

from profkit._showing import printed, written
from profkit.attribution.device_usage import device_usage
from profkit.attribution.usage import Usage
from profkit.capture.device_trace import DeviceTrace
from profkit.errors import ProfkitError
from profkit.rendering.device_content import device_surroundings, warning_lines
from profkit.rendering.terminal import encodable
from profkit.rendering.usage_content import View, build_table
from profkit.rendering.usage_files import render_usage_csv, render_usage_json
from profkit.rendering.usage_tfprof import render_tfprof
from profkit.rendering.whole_file import write_whole


def print_device_trace(
    trace: DeviceTrace, by: str, view: View, layout: str, files: Mapping[str, str], stream: TextIO | None = None
) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were."""
    usage = device_usage(trace, by)
    out = sys.stdout if stream is None else stream
    problems = printed(lambda: _print(trace, usage, view, layout, out), out)
    writers = _writers(trace, usage, view)
    problems += written(partial(writers[kind], path) for kind, path in files.items())
    if problems:
        raise ProfkitError("\n".join(problems))


def _print(trace: DeviceTrace, usage: Usage, view: View, layout: str, out: TextIO) -> None:
    if layout == "tfprof":
        lines = "".join(f"{line}\n" for line in warning_lines(trace))
        out.write(encodable(lines + render_tfprof(usage, view), out))
    else:
        build_table(usage, view, device_surroundings(trace, usage)).print(out)


def _writers(trace: DeviceTrace, usage: Usage, view: View) -> dict[str, Callable[[str], None]]:
    return {
        "json": lambda path: write_whole(path, render_usage_json(usage)),
        "csv": lambda path: write_whole(path, render_usage_csv(usage)),
        "markdown": lambda path: write_whole(
            path, build_table(usage, view, device_surroundings(trace, usage)).markdown()
        ),
    }
