"""Captures of networks shown and saved: captures and a choice of rows and columns in, text and files out.

profkit.network calls it after a run, profkit.report for a saved file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from profkit.attribution.gaps import layer_gaps
from profkit.attribution.networks.usage import network_usage
from profkit.attribution.usage import Usage
from profkit.capture.network_capture import NetworkCapture
from profkit.commands.showing import TFPROF, printed, written
from profkit.errors import ProfkitError
from profkit.rendering.atomic_write import write_atomically
from profkit.rendering.tables.document import Document
from profkit.rendering.tables.table import Table
from profkit.rendering.terminal import encodable
from profkit.rendering.usage.content import View
from profkit.rendering.usage.files import render_usage_csv, render_usage_json
from profkit.rendering.usage.frameworks import compare_layers
from profkit.rendering.usage.gaps import gap_table, gaps_to_json
from profkit.rendering.usage.networks import failure_lines, network_table, network_title, run_lines
from profkit.rendering.usage.tfprof import render_tfprof


def print_networks(
    captures: Sequence[NetworkCapture],
    by: str | None,
    view: View,
    layout: str,
    files: Mapping[str, str],
    stream: TextIO | None = None,
) -> None:
    """Print a report for each capture, then the frameworks side by side; then write the files.

    A reader that went away, or one file that cannot be written, does not cost the others.
    """
    # tfprof speaks of types; kinds are profkit's own.
    chosen = by or ("type" if layout == TFPROF else "kind")
    usages = [network_usage(capture, chosen) if capture.recording("time") else None for capture in captures]
    out = sys.stdout if stream is None else stream
    problems = printed(lambda: _print(captures, usages, view, layout, out), out)
    problems += _written(captures, usages, view, files)
    if problems:
        raise ProfkitError("\n".join(problems))


def _print(
    captures: Sequence[NetworkCapture], usages: Sequence[Usage | None], view: View, layout: str, out: TextIO
) -> None:
    for capture, usage in zip(captures, usages):
        if usage is None:
            _without_table(capture).print(sys.stderr)
    if layout == TFPROF:
        profiles = [render_tfprof(usage.mean_of_steps(), view) for usage in usages if usage is not None]
        out.write(encodable("\n".join(profiles), out))
    else:
        _document(captures, usages, view).print(out)


def _without_table(capture: NetworkCapture) -> Table:
    """A run that ended before anything was recorded: what is known of it."""
    facts = run_lines(capture) if capture.step_ns or capture.error is not None else ["nothing was measured"]
    return Table(network_title(capture), facts, losses=failure_lines(capture) or ["nothing was recorded"])


def _document(
    captures: Sequence[NetworkCapture], usages: Sequence[Usage | None], view: View, *, explains_all: bool = False
) -> Document:
    """A report for each capture, then the frameworks side by side."""
    tables = []
    for capture, usage in zip(captures, usages):
        if usage is not None:
            tables.append(network_table(capture, usage, view))
            explained = {"explained": 0.0} if explains_all else {}
            tables += [gap_table(layer_gaps(capture), **explained)] if capture.baseline else []
    whole = _comparable(captures)
    return Document(*tables, *([compare_layers(whole)] if len(whole) > 1 else []))


def _comparable(captures: Sequence[NetworkCapture]) -> list[NetworkCapture]:
    return [capture for capture in captures if capture.recording("time")]


def _written(
    captures: Sequence[NetworkCapture], usages: Sequence[Usage | None], view: View, files: Mapping[str, str]
) -> list[str]:
    jobs: list[Callable[[], None]] = []
    for capture, usage in zip(captures, usages):
        if usage is None:
            continue
        for kind, path in files.items():
            target = path_for(path, capture, captures)
            if kind == "json":
                more = {"gaps": gaps_to_json(layer_gaps(capture))} if capture.baseline else {}
                jobs.append(partial(write_atomically, target, render_usage_json(usage, more)))
            elif kind == "csv":
                jobs.append(partial(write_atomically, target, render_usage_csv(usage)))
    if files and not any(usages):
        return [f"{', '.join(files.values())}: not written, because nothing was recorded"]
    if "markdown" in files:
        document = _document(captures, usages, view, explains_all=True)
        jobs.append(partial(write_atomically, files["markdown"], document.markdown()))
    return written(jobs)


def path_for(path: str, capture: NetworkCapture, captures: Sequence[NetworkCapture]) -> str:
    """The file of one of several captures: usage.json is usage.torch.json, unless there is only one."""
    if len(captures) == 1:
        return path
    target = Path(path)
    names = [each.framework for each in captures]
    mode = f"-{capture.mode}" if names.count(capture.framework) > 1 else ""
    return os.fspath(target.with_name(f"{target.stem}.{capture.framework}{mode}{target.suffix}"))
