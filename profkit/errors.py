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


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """The nearest known words, at most so many, as a question with a space behind it; nothing when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"did you mean {' or '.join(near)}? " if near else ""


def nearest(word: str, known: Collection[str], most: int = 3) -> str:
    """What could have been meant, or all that is known."""
    return did_you_mean(word, known, most).rstrip() or f"expected one of {', '.join(known)}"


def unknown(what: str, word: str, known: Collection[str], most: int = 3) -> str:
    """The message for a word that is not one of those known."""
    return f"unknown {what} {word!r}; {nearest(word, known, most)}"


def check_names(
    where: str, given: Iterable[str], known: Collection[str], what: str = "option", kind: type[UsageError] = UsageError
) -> None:
    """Raise for the first name that is not known there, with the nearest one that is."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise kind(f"{where} has no {what} {name!r}; {hint}{what}s: {', '.join(known)}")
