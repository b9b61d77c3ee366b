"""The files that a command writes: checked before it works, written atomically after it, errors as ProfkitError."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from profkit.capture.atomic_write import atomic_write
from profkit.errors import ProfkitError, UsageError

MAGIC = b"PROFKIT\n"
"""How the tracer's capture files begin."""


def check_target(path: str | Path) -> None:
    """Raise UsageError now when the file could not be written later, after a long measurement."""
    target = Path(path)
    refuse_dash(path)
    if target.is_dir():
        raise UsageError(f"cannot write {target}: it is a folder")
    if is_stream(target):
        if not os.access(target, os.W_OK):
            raise UsageError(f"cannot write {target}: {os.strerror(errno.EACCES)}")
        return
    check_folder(target)


def check_targets(
    files: Iterable[str | None], folders: Iterable[str | None] = (), sources: Iterable[str | None] = ()
) -> None:
    """Raise UsageError now for files that could not be written later, or would be written twice; None is skipped.

    Files that the command reads, `sources`, may not be overwritten either.
    """
    paths = [path for path in files if path]
    for path in paths:
        check_target(path)
    for folder in filter(None, folders):
        refuse_dash(folder)
        paths.append(folder)
    places = [os.path.realpath(path) for path in paths]
    read = {os.path.realpath(path) for path in sources if path}
    for path in paths:
        if os.path.realpath(path) in read and not is_stream(path):
            raise UsageError(f"{path} is read by this command: choose another file for the output")
        if places.count(os.path.realpath(path)) > 1 and not is_stream(path):
            raise UsageError(f"{path} is named for two different files: give each its own name")


def refuse_dash(path: str | Path) -> None:
    """Raise UsageError for `-`, which some programs take for standard output and others for a file of that name."""
    if str(path) == "-":
        raise UsageError("cannot write -: name a file; standard output is /dev/stdout, a file called - is ./-")


def write_atomically(path: str | Path, text: str) -> None:
    """Write a temporary file beside the target, sync it, and rename it over the target; a stream is written into."""
    with open_output(path) as stream:
        stream.write(text.encode("utf-8"))


@contextlib.contextmanager
def open_output(path: str | Path, *, syncs: bool = True) -> Iterator[BinaryIO]:
    """The same for a file written in pieces; it takes its place when the block ends without an error.

    Without `syncs` a power failure may empty the file: right for what is large and made again in a second.
    """
    try:
        with _written_into(path) if is_stream(path) else atomic_write(path, syncs=syncs) as stream:
            yield stream
    except OSError as error:
        raise ProfkitError(f"could not write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _written_into(path: str | Path) -> Iterator[BinaryIO]:
    # Never created or emptied: `/dev/stdout` may be a file that already holds the table.
    with os.fdopen(_opened(path), "wb") as stream:
        yield stream


def _opened(path: str | Path) -> int:
    """A descriptor to write to. Where this program prints, it shares the position with what is printed before and
    after, by others too: a file opened anew would be written over by them."""
    shared = _printed_to(path)
    if shared is None:
        return _opened_pipe(path)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return os.dup(shared)


def _opened_pipe(path: str | Path) -> int:
    """Also a terminal or a device. A pipe without a reader is waited for, with a message."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
            raise
        # repr() escapes control characters, and whatever standard error cannot encode is escaped by the stream.
        sys.stderr.write(f"waiting for a reader of {str(path)!r}\n")
        sys.stderr.flush()
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    os.set_blocking(descriptor, True)
    return descriptor


def is_stream(path: str | Path) -> bool:
    """Whether the path is a pipe, a terminal, a device, or where this program prints: nothing to be replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return not stat.S_ISREG(found.st_mode) or _printed_to(path) is not None


def is_stdout(path: str | Path) -> bool:
    """Whether what is written there comes out between what is printed."""
    return _printed_to(path) == 1


def _printed_to(path: str | Path) -> int | None:
    """Descriptor 1 or 2, whichever the path means."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
    return None


# The file of the recorder, which writes it itself.


def claim_target(path: str | os.PathLike[str]) -> str:
    """Make the place free: an old capture is removed, anything else is refused; returns the absolute path."""
    target = Path(os.path.abspath(path))
    check_folder(target)
    if not os.path.lexists(target):
        return str(target)
    if target.is_dir():
        raise UsageError(f"cannot write {target}: it is a folder")
    if not stat.S_ISREG(target.stat().st_mode if target.exists() else target.lstat().st_mode):
        raise UsageError(f"cannot write {target}: a capture must be a file")
    if not _is_replaceable(target):
        raise UsageError(f"{target} exists and is not a profkit capture; name another file or remove it")
    os.unlink(target)
    return str(target)


def check_folder(target: Path) -> None:
    """Raise UsageError when no file can be made beside the target."""
    folder = target.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {folder}; type mkdir -p {folder}")
    try:
        # Asking for permission bits is not enough: a read-only or full file system says so only when written to.
        descriptor, name = tempfile.mkstemp(prefix=".profkit-", dir=folder)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from None
    os.close(descriptor)
    os.unlink(name)


def _is_replaceable(target: Path) -> bool:
    """Whether it begins like a capture, or is empty (a recorder that was killed at once left it)."""
    try:
        with target.open("rb") as stream:
            return stream.read(len(MAGIC)) in (MAGIC, b"")
    except OSError as error:
        raise UsageError(f"cannot replace {target}: {error.strerror or error}") from None
