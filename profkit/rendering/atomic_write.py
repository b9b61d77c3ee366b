"""Atomic writes of files: text or bytes in, a finished file out; a failure leaves what was there before."""

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

from profkit.capture.target import check_folder
from profkit.errors import ProfkitError, UsageError


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


def check_targets(files: Iterable[str | None], folders: Iterable[str | None] = ()) -> None:
    """Raise UsageError now for what could not be written later, or would be written twice; None is no file."""
    paths = [path for path in files if path]
    for path in paths:
        check_target(path)
    for folder in filter(None, folders):
        refuse_dash(folder)
        paths.append(folder)
    places = [os.path.realpath(path) for path in paths]
    for path in paths:
        if places.count(os.path.realpath(path)) > 1 and not is_stream(path):
            raise UsageError(f"{path} is named for two different files: give each a name of its own")


def refuse_dash(path: str | Path) -> None:
    """Raise UsageError for `-`, which some programs take for standard output and others for a file of that name."""
    if str(path) == "-":
        raise UsageError("cannot write -: name a file; standard output is /dev/stdout, a file called - is ./-")


def write_atomically(path: str | Path, text: str) -> None:
    """Write a temporary file beside the target, sync it, and rename it over the target; a stream is written into."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


@contextlib.contextmanager
def atomic_write(path: str | Path, *, syncs: bool = True) -> Iterator[BinaryIO]:
    """The same for a file written in pieces; it takes its place when the block ends without an error.

    Without `syncs` a power failure may empty the file: right for what is large and made again in a second.
    """
    try:
        with _written_into(path) if is_stream(path) else _replacing(path, syncs) as stream:
            yield stream
    except OSError as error:
        raise ProfkitError(f"could not write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _replacing(path: str | Path, syncs: bool) -> Iterator[BinaryIO]:
    # A link is followed, so that the file it names is replaced and not the link.
    target = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            if syncs:
                os.fsync(stream.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


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
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return os.dup(shared)


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


def _mode(target: Path) -> int:
    """The existing file's permissions, or those that a new file gets: mkstemp alone would make it private."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
