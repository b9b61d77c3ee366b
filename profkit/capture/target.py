"""The file a capture goes to: a path in, a free place for the recorder out, or the reason why not."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

from profkit.errors import UsageError

MAGIC = b"PROFKIT\n"


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
        reason = os.strerror(error.errno) if error.errno else os.strerror(errno.EIO)
        raise UsageError(f"cannot replace {target}: {reason}") from None
