"""Files that pass arrays between parent and workers: where they are and how long they live."""

from __future__ import annotations

import contextlib
import fcntl
import io
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from profkit.errors import first_line
from profkit.ops.dtypes import for_file
from profkit.ops.spec import Array, Spec

SHARED_MEMORY = Path("/dev/shm")
LONGEST_HEADER = 1 << 16
"""Bytes of a .npy file before its array."""


def result_path(folder: str, key: str) -> str:
    """Where a worker leaves its result."""
    return os.path.join(folder, "result." + key.replace("/", ".") + ".npy")


def read_file(path: str, most: int) -> bytes:
    """A file that a worker left. A candidate may have put anything in its place: a pipe or a device never ends.

    OSError for what is no file, or is larger.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            what = f"{about.st_size:,} bytes" if stat.S_ISREG(about.st_mode) else "no file"
            raise OSError(f"{os.path.basename(path)} is {what}, expected a file of at most {most:,} bytes")
        return stream.read(most)


def read_array(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that a worker saved; OSError or ValueError for a file of something else."""
    size = math.prod(shape) * dtype.itemsize
    stream = io.BytesIO(read_file(path, size + LONGEST_HEADER))
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        found_shape, is_fortran, found = read(stream)
    except Exception as error:  # anything that the header of a damaged file may raise
        raise ValueError(f"it is no array of NumPy: {first_line(error)}") from None
    data = stream.getvalue()[stream.tell() :]
    if found.hasobject or len(data) != math.prod(found_shape) * found.itemsize:
        raise ValueError(f"it is {found} {list(found_shape)} in {len(data):,} bytes")
    array: Array = np.frombuffer(data, found).reshape(found_shape, order="F" if is_fortran else "C")
    return array


def has_array(path: str, array: Array) -> bool:
    """Whether the file still is this array."""
    own = for_file(array)
    try:
        kept = read_array(path, own.shape, own.dtype)
    except (OSError, ValueError):
        return False
    return bool(kept.dtype == own.dtype and kept.shape == own.shape and kept.tobytes() == own.tobytes())


def array_folder(spec: Spec) -> contextlib.AbstractContextManager[str]:
    """A folder for inputs and results: in memory when there is room for two results beside the inputs."""
    # Before free space is checked: a killed run may have left files.
    remove_leftovers(SHARED_MEMORY)
    if not SHARED_MEMORY.is_dir() or shutil.disk_usage(SHARED_MEMORY).free < 4 * spec.min_bytes():
        return scratch_folder()
    return scratch_folder(SHARED_MEMORY)


@contextlib.contextmanager
def scratch_folder(place: Path | None = None) -> Iterator[str]:
    """A folder that does not outlive this process.

    When the process is killed, the supervisors of its workers remove the folder; if there are none, the next run does:
    the kernel gives up a lock with its owner, whose process id may be hidden in another container.
    """
    place = place or Path(tempfile.gettempdir())
    remove_leftovers(place)
    folder, lock = _locked_folder(place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(place: Path) -> tuple[str, int]:
    while True:
        folder = f"{place / _prefix(os.getpid())}{secrets.token_hex(4)}"
        os.mkdir(folder, 0o700)
        # Another run may take it for a leftover until it is locked.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.isdir(folder):
                return folder, lock
            os.close(lock)


def folder_prefixes() -> list[str]:
    """How the paths of this process's folders begin."""
    return [str(place / _prefix(os.getpid())) for place in (SHARED_MEMORY, Path(tempfile.gettempdir()))]


@cache
def _prefix(pid: int) -> str:
    # Not the process id alone: another container that shares the folder may have the same.
    return f"profkit-{pid}-{secrets.token_hex(4)}-"


def remove_leftovers(place: Path) -> None:
    """Remove the folders of runs that have ended."""
    for folder in place.glob("profkit-*"):
        if not re.fullmatch(r"profkit-\d+-[0-9a-f]{8}-[0-9a-f]{8}", folder.name):
            continue
        # A folder that is locked or belongs to another user is not removed.
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
