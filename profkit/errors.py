"""Every error that profkit raises on purpose; the command line turns each into a message and an exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class ProfkitError(Exception):
    """Base of all; `exit_code` is what a command returns when it ends with this error."""

    exit_code = 1


class UsageError(ProfkitError):
    """The caller asked for something that cannot be: a wrong flag, an unknown preset, an empty selection."""

    exit_code = 2


class SpecError(UsageError):
    """An operator with an impossible field or geometry; the message carries the numbers."""


class UnavailableError(ProfkitError):
    """A framework or device cannot run on this machine; the message says why and what to type."""


class UnsupportedError(ProfkitError):
    """An implementation does not offer this spec; the message says which field and why."""


class WrongResultError(ProfkitError):
    """An implementation returned another type or shape than the spec says."""


class KernelError(ProfkitError):
    """A native kernel refused its arguments (dtype, layout, overlap, read-only output, ...)."""


class CaptureError(ProfkitError):
    """A file is not a capture, or cannot be read: missing, foreign, newer, its header damaged."""


class TraceError(CaptureError):
    """A file looks like another tool's GPU trace (JSON, SQLite), but cannot be attributed."""

    exit_code = 2


def check_names(
    where: str, given: Iterable[str], known: Collection[str], what: str = "option", kind: type[UsageError] = UsageError
) -> None:
    """Raise for the first name that is not known there, with the nearest one that is."""
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise kind(f"{where} has no {what} {name!r}; {hint}{what}s: {', '.join(known)}")
