"""Files that workers left, or that something else took the place of: read without waiting, no more than expected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.measurement.arrays import has_array, read_array, read_file

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,)}".ljust(117) + b"\n"


def huge_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


REPLACED: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "huge": huge_file,
    "nothing": lambda path: None,
}
DAMAGED = {
    "empty": b"",
    "no array": b"PK" * 50,
    "its header ends early": b"\x93NUMPY\x01\x00\xff\xff{'descr'",
    "a header that is no text": b"\x93NUMPY\x01\x00\x04\x00\xff(('",
    "more than it has": b"\x93NUMPY\x01\x00\x76\x00" + HUGE,
}


@pytest.mark.parametrize("kind", REPLACED)
def test_what_took_a_files_place_is_not_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "result.npy"
    REPLACED[kind](path)

    with pytest.raises(OSError):
        read_file(str(path), 1000)
    assert not has_array(str(path), ARRAY)


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_array_is_no_array(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "result.npy"
    path.write_bytes(DAMAGED[kind])

    with pytest.raises(ValueError, match="it is"):
        read_array(str(path), ARRAY.shape, ARRAY.dtype)
    assert not has_array(str(path), ARRAY)


def test_an_array_comes_back_in_either_order_of_its_elements(tmp_path: Path) -> None:
    for order in ("C", "F"):
        path = tmp_path / f"{order}.npy"
        np.save(path, np.asarray(ARRAY, order=order))

        assert np.array_equal(read_array(str(path), ARRAY.shape, ARRAY.dtype), ARRAY)
        assert has_array(str(path), ARRAY) and not has_array(str(path), ARRAY + 1)
