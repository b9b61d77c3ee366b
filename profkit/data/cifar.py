"""CIFAR-10's published files, binary or Python version: a folder in, checked Data out.

A file that is cut or has impossible labels is an error with its name; files that are whole but not the published ones
(other digests) are used, and every output says so.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from profkit.data.dataset import Data, DataSource
from profkit.data.files import check_classes, check_size, damaged, in_folder, read_bytes
from profkit.errors import UsageError
from profkit.ops.spec import Array

CIFAR10 = "CIFAR-10"
SIDE, CHANNELS, CLASSES = 32, 3, 10
PIXELS = CHANNELS * SIDE * SIDE
NAMES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
# MD5 of the Python version's files, as published; those of the binary version are not.
DIGESTS = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
PUBLISHED_BYTES = 10_000 * (1 + PIXELS)  # of a file of the binary version
MOST_BYTES = 10 * PUBLISHED_BYTES
ImageLabels = tuple[Array, Array]


def _where(version: str) -> str:
    return f"download cifar-10-{version}.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and unpack it"


def _read(suffix: str, version: str, parse: Callable[[Path, bytes], ImageLabels], folder: Path) -> Data:
    """All files, in their order: five for training and one for tests."""
    paths = [folder / f"{name}{suffix}" for name in NAMES]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UsageError(f"{folder} lacks {', '.join(missing)}: {_where(version.lower())}")
    for path in paths:
        check_size(path, MOST_BYTES)
    pixels, labels, is_published = [], [], True
    for path in paths:
        content = read_bytes(path, MOST_BYTES)
        images, classes = parse(path, content)
        pixels.append(images)
        labels.append(classes)
        is_published = is_published and _is_published(path.name, content)
    remark = "" if is_published else ", not the published files"
    return Data(
        f"{CIFAR10}, {version} version{remark}",
        np.concatenate(pixels[:-1]),
        np.concatenate(labels[:-1]),
        pixels[-1],
        labels[-1],
    )


def _parse_binary(path: Path, content: bytes) -> ImageLabels:
    """Records of one label byte and 3072 pixels: red, green, blue, each row by row."""
    if not content or len(content) % (1 + PIXELS):
        raise damaged(
            path,
            f"{len(content):,} bytes are not a whole number of records of {1 + PIXELS:,} bytes "
            f"(the published file has {PUBLISHED_BYTES:,})",
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + PIXELS)
    return _checked(path, records[:, 1:], records[:, 0])


def _parse_python(path: Path, content: bytes) -> ImageLabels:
    """A pickled dictionary with `data` [n, 3072] and `labels`."""
    try:
        found = _ArraysOnly(io.BytesIO(content)).load()
        # A list may hold another many times, which may hold another many times: as an array it would fill the memory.
        if not isinstance(found[b"data"], np.ndarray) or {type(label) for label in found[b"labels"]} - {int}:
            raise TypeError("its data are no array, or its labels no whole numbers")
        # Nor has every element of an array to be in the file.
        if found[b"data"].size > len(content):
            raise ValueError(f"its data are {found[b'data'].size:,} numbers in {len(content):,} bytes")
        pixels = np.asarray(found[b"data"], np.uint8)
        labels = np.asarray(found[b"labels"], np.int64)
    except Exception as error:  # anything that a damaged pickle may raise
        raise damaged(path, f"{type(error).__name__}: {error}") from None
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS or labels.shape != (len(pixels),):
        raise damaged(path, f"data {pixels.shape} and labels {labels.shape}, expected [n, {PIXELS}] and [n]")
    return _checked(path, pixels, labels)


def _checked(path: Path, pixels: Array, labels: Array) -> ImageLabels:
    check_classes(path, labels, CLASSES)
    return pixels.reshape(-1, CHANNELS, SIDE, SIDE), labels.astype(np.int64)


class _ArraysOnly(pickle.Unpickler):
    """A pickle can run any code; this one makes NumPy arrays and nothing else."""

    _ALLOWED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    )

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which no data file needs")
        if module == "numpy.core.multiarray":
            # Its name until NumPy 2; the old one still works there, but warns.
            module = np.ndarray.__reduce__(np.zeros(1))[0].__module__
        return super().find_class(module, name)


def _latin1(text: str, encoding: str) -> bytes:
    """How Python 3 pickles bytes for Python 2. Other encodings of encodings double what they are given."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it has text in {encoding!r}, expected latin1")
    return text.encode(encoding)


def _is_published(name: str, content: bytes) -> bool:
    if name.endswith(".bin"):
        return len(content) == PUBLISHED_BYTES
    return hashlib.md5(content, usedforsecurity=False).hexdigest() == DIGESTS[name]


def _source(suffix: str, version: str, folder: str, parse: Callable[[Path, bytes], ImageLabels]) -> DataSource:
    names = tuple(f"{name}{suffix}" for name in NAMES)
    return DataSource(
        CIFAR10,
        names[0],
        _where(version.lower()),
        lambda place: in_folder(place, names, (folder,)),
        partial(_read, suffix, version, parse),
    )


BINARY = _source(".bin", "binary", "cifar-10-batches-bin", _parse_binary)
PYTHON = _source("", "Python", "cifar-10-batches-py", _parse_python)
