"""Every error that profkit raises on purpose; the command line turns each into a message and an exit code."""

from __future__ import annotations


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
    """A file is no capture, or cannot be read at all: missing, foreign, newer, its header damaged."""


class TraceError(CaptureError):
    """A file looks like another tool's GPU trace (JSON, SQLite), but is none that can be attributed."""

    exit_code = 2
