"""MNIST's published idx files, plain or packed by gzip: a folder in, checked Data out."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from profkit.data.dataset import Data, DataSource
from profkit.data.files import check_classes, damaged, in_folder, read_bytes
from profkit.errors import UsageError
from profkit.ops.spec import Array

MNIST = "MNIST"
SIDE, CLASSES = 28, 10
MOST_IMAGES = 100_000
PARTS = ("train", "t10k")
IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
NAMES = tuple(f"{part}-{kind}{suffix}" for part in PARTS for kind in (IMAGES, LABELS) for suffix in (".gz", ""))
WHERE = "get the four files, as train-images-idx3-ubyte.gz, of MNIST"
_UNSIGNED_BYTES = 8
"""The type of the elements, in the third byte of an idx file."""


def _read(folder: Path) -> Data:
    arrays = []
    for part in PARTS:
        labels_path = _path(folder, f"{part}-{LABELS}")
        images = _elements(_path(folder, f"{part}-{IMAGES}"), (SIDE, SIDE))
        labels = _elements(labels_path, ())
        check_classes(labels_path, labels, CLASSES)
        if len(images) != len(labels):
            raise damaged(labels_path, f"it has {len(labels):,} labels, and there are {len(images):,} images")
        arrays += [images[:, None], labels.astype(np.int64)]
    return Data(MNIST, *arrays)


def _path(folder: Path, name: str) -> Path:
    for suffix in (".gz", ""):
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    raise UsageError(f"{folder} lacks {name}.gz: {WHERE}")


def _elements(path: Path, shape: tuple[int, ...]) -> Array:
    """The array of a file, of whose shape all but the first number are known."""
    head = struct.Struct(f">{2 + len(shape)}I")
    data = read_bytes(path, head.size + MOST_IMAGES * int(np.prod(shape, dtype=int)))
    magic = _UNSIGNED_BYTES << 8 | 1 + len(shape)
    if len(data) < head.size:
        raise damaged(path, f"{len(data)} bytes are less than its header of {head.size}")
    found, count, *rest = head.unpack_from(data)
    if found != magic or tuple(rest) != shape:
        raise damaged(path, f"its header has {found:#x} and {[count, *rest]}, expected {magic:#x} and {['n', *shape]}")
    expected = head.size + count * int(np.prod(shape, dtype=int))
    if len(data) != expected:
        raise damaged(path, f"{len(data):,} bytes, and its header says {count:,} elements, {expected:,} bytes")
    elements: Array = np.frombuffer(data, np.uint8, offset=head.size).reshape(count, *shape)
    return elements


SOURCE = DataSource(MNIST, NAMES[0], WHERE, lambda place: in_folder(place, NAMES, ("mnist", "MNIST/raw")), _read)
