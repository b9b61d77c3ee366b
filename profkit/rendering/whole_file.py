"""Writing a file whole or not at all: text or bytes in, a finished file out; a failure leaves what was there before."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from profkit.errors import ProfkitError, UsageError


def check_target(path: str | Path) -> None:
    """Raise UsageError now when the file could not be written later, after a long measurement."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise UsageError(f"cannot write {target}: it is a folder")
    if is_stream(target):
        if not os.access(target, os.W_OK):
            raise UsageError(f"cannot write {target}: {os.strerror(errno.EACCES)}")
        return
    if not folder.is_dir():
        raise UsageError(f"cannot write {target}: there is no folder {folder}; type mkdir -p {folder}")
    try:
        # Asking for permission bits is not enough: a read-only or full file system says so only when written to.
        descriptor, name = tempfile.mkstemp(prefix=".profkit-", dir=folder)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from None
    os.close(descriptor)
    os.unlink(name)


def write_whole(path: str | Path, text: str) -> None:
    """Write a temporary file beside the target, sync it, and rename it over the target; a stream is written into."""
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8"))


@contextlib.contextmanager
def whole_file(path: str | Path, *, syncs: bool = True) -> Iterator[BinaryIO]:
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
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as stream:
        yield stream


def is_stream(path: str | Path) -> bool:
    """Whether the path is a pipe, a terminal, a device, or where this program prints: nothing to be replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode):
        return True
    with contextlib.suppress(OSError):
        return os.path.samestat(found, os.fstat(1))
    return False


def _mode(target: Path) -> int:
    """The existing file's permissions, or those that a new file gets: mkstemp alone would make it private."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
