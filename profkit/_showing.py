"""A table printed and files written, each as far as it goes: what failed comes back as words, nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from profkit.cli import abandon_stdout
from profkit.errors import ProfkitError


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
