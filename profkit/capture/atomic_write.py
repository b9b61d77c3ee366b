"""Atomic writes: a path in, a stream out whose contents take the path's place when the block ends.

Worker side: standard library only.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], *, syncs: bool = True) -> Iterator[BinaryIO]:
    """A stream into a file beside the target, renamed over it at the end; after an error nothing is left of it.

    A link is followed, so that the file it names is replaced and not the link. Without `syncs` a power failure may
    empty the file.
    """
    target = Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:200]}-", dir=target.parent)
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


def _mode(target: Path) -> int:
    """The existing file's permissions, or those that a new file gets: mkstemp alone would make it private."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
