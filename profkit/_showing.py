"""A table printed and files written, each as far as it goes: what failed comes back as words, nothing else is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TextIO

from profkit.attribution.usage import Usage
from profkit.cli import abandon_stdout
from profkit.errors import ProfkitError
from profkit.rendering.terminal import encodable
from profkit.rendering.usage_content import Surroundings, View, build_table
from profkit.rendering.usage_files import render_usage_csv, render_usage_json
from profkit.rendering.usage_tfprof import render_tfprof
from profkit.rendering.whole_file import write_whole

TFPROF = "tfprof"


def show_usage(
    around: Surroundings,
    usage: Usage,
    view: View,
    layout: str,
    files: Mapping[str, str],
    stream: TextIO | None = None,
) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were."""
    out = sys.stdout if stream is None else stream
    table = build_table(usage, view, around)
    texts: dict[str, Callable[[], str]] = {
        "json": lambda: render_usage_json(usage),
        "csv": lambda: render_usage_csv(usage),
        "markdown": table.markdown,
    }

    def show() -> None:
        if layout != TFPROF:
            return table.print(out)
        above = "".join(f"{line}\n" for line in (*around.losses, *around.warnings, *around.instead))
        out.write(encodable(above + render_tfprof(usage, view), out))
        return None

    def write(kind: str, path: str) -> None:
        write_whole(path, texts[kind]())

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
