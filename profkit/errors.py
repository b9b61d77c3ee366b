"""Every error that profkit raises on purpose; the command line turns each into a message and an exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterable

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class ProfkitError(Exception):
    """Base of all; `exit_code` is what a command returns when it ends with this error."""

    exit_code = 1


class UsageError(ProfkitError):
    """The caller requested something impossible: a wrong flag, an unknown preset, an empty selection."""

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


class CompileError(KernelError):
    """A candidate's file does not compile; the message has the compiler's own words."""


class LoadError(KernelError):
    """A candidate's file cannot be loaded: its import failed, its function or symbol is not there."""


class CaptureError(ProfkitError):
    """A file is not a capture, or cannot be read: missing, foreign, newer, its header damaged."""


class TraceError(CaptureError):
    """A file looks like another tool's GPU trace (JSON, SQLite), but cannot be attributed."""

    exit_code = 2


_LONGEST_WORD, _LONGEST_LINE = 60, 400


def first_line(error: BaseException) -> str:
    """What an error says, for the end of a sentence: it may quote a file at length."""
    return _cut((str(error).strip() or type(error).__name__).splitlines()[0], _LONGEST_LINE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def listed(names: Collection[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(list(names)[:most]) + more


def did_you_mean(word: str, known: Iterable[str], most: int = 1) -> str:
    """The nearest known words, at most so many, as a question with a space behind it; nothing when none is near."""
    from difflib import get_close_matches

    if len(word) > _LONGEST_WORD:
        return ""  # not typed by a person, and the search would take seconds
    near = get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"did you mean {' or '.join(near)}? " if near else ""


def nearest(word: str, known: Collection[str], most: int = 3) -> str:
    """The nearest known names, or all of them."""
    return did_you_mean(word, known, most).rstrip() or f"expected one of {', '.join(known)}"


def unknown(what: str, word: str, known: Collection[str], most: int = 3) -> str:
    """The message for a word that is not one of those known."""
    return f"unknown {what} {_cut(word, _LONGEST_WORD)!r}; {nearest(word, known, most)}"


def check_names(
    where: str, given: Iterable[str], known: Collection[str], what: str = "option", kind: type[UsageError] = UsageError
) -> None:
    """Raise for the first name that is not known there, with the nearest one that is."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise kind(f"{where} has no {what} {_cut(name, _LONGEST_WORD)!r}; {hint}{what}s: {', '.join(known)}")
