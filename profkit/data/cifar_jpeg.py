"""CIFAR-10 re-encoded as JPEG, in one .npz file: `jpeg` (all files, one after another), `offsets`, `labels`, `is_test`.

Decoded by Pillow, here in the parent: workers get arrays. JPEG loses a little of every image, so every output says it.
"""

from __future__ import annotations

import importlib.util
import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.archive import content, opened
from profkit.data.cifar import CHANNELS, CIFAR10, CLASSES, SIDE
from profkit.data.dataset import Data, DataSource
from profkit.data.files import check_classes, check_size, damaged
from profkit.errors import UsageError, first_line
from profkit.ops.spec import Array

NAME = "cifar10-jpeg.npz"
MOST_BYTES, MOST_IMAGES = 1 << 27, 100_000
_TYPES: Mapping[str, Any] = {"jpeg": np.uint8, "offsets": np.int64, "labels": np.uint8, "is_test": np.bool_}


def _find(place: Path) -> Path | None:
    path = place if place.suffix == ".npz" else place / NAME
    return path if path.is_file() else None


def _read(path: Path) -> Data:
    if importlib.util.find_spec("PIL") is None:
        raise UsageError(f'{path}: to decode JPEG, Pillow is needed; type: pip install "profkit[data]"')
    check_size(path, MOST_BYTES)
    try:
        with opened(path) as archive:
            if (unpacked := sum(entry.file_size for entry in archive.infolist())) > MOST_BYTES:
                raise ValueError(f"it unpacks to {unpacked:,} bytes, more than {MOST_BYTES:,}")
            arrays = {name: _array(archive, f"{name}.npy", dtype) for name, dtype in _TYPES.items()}
        _check(arrays)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise damaged(path, first_line(error)) from None
    labels, is_test = arrays["labels"].astype(np.int64), arrays["is_test"]
    check_classes(path, labels, CLASSES)
    pixels = _decoded(path, arrays["jpeg"], arrays["offsets"])
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    return Data(f"{CIFAR10}, re-encoded as JPEG", pixels[train], labels[train], pixels[test], labels[test])


def _array(archive: zipfile.ZipFile, name: str, dtype: Any) -> Array:
    """A column of numbers whose header says no more than the entry has."""
    stream = io.BytesIO(content(archive, name))
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"{name} has version {version} of NumPy's format, expected (1, 0)")
    shape, _, found = np.lib.format.read_array_header_1_0(stream)
    left = len(stream.getbuffer()) - stream.tell()
    if len(shape) != 1 or found != np.dtype(dtype) or math.prod(shape) * found.itemsize != left:
        raise ValueError(f"{name} is {found} {list(shape)} in {left:,} bytes, expected {np.dtype(dtype)} [n]")
    return np.frombuffer(stream.getbuffer()[stream.tell() :], found)


def _check(arrays: Mapping[str, Array]) -> None:
    count, offsets = len(arrays["labels"]), arrays["offsets"]
    if not 0 < count <= MOST_IMAGES or len(arrays["is_test"]) != count or len(offsets) != count + 1:
        raise ValueError(
            f"{count:,} labels, {len(arrays['is_test']):,} times is_test and {len(offsets):,} offsets do not fit "
            f"together, or are more than {MOST_IMAGES:,} images"
        )
    if not 0 < int(arrays["is_test"].sum()) < count:
        raise ValueError("it has no images for training, or none for tests")
    if offsets[0] != 0 or (np.diff(offsets) <= 0).any() or offsets[-1] != len(arrays["jpeg"]):
        raise ValueError("its offsets do not divide its jpeg into files")


def _decoded(path: Path, jpeg: Array, offsets: Array) -> Array:
    """[n, 3, 32, 32]; an image's size is checked before its pixels are decoded."""
    from PIL import Image

    pixels = np.empty((len(offsets) - 1, CHANNELS, SIDE, SIDE), np.uint8)
    for number in range(len(pixels)):
        packed = jpeg[offsets[number] : offsets[number + 1]].tobytes()
        try:
            with Image.open(io.BytesIO(packed), formats=("JPEG",)) as image:
                if image.size != (SIDE, SIDE):
                    raise ValueError(f"it is {'x'.join(map(str, image.size))}, expected {SIDE}x{SIDE}")
                pixels[number] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        except Exception as error:  # anything that Pillow may raise of damaged bytes
            raise damaged(path, f"image {number}: {first_line(error)}") from None
    return pixels


JPEG = DataSource(CIFAR10, NAME, f"make {NAME} as docs/data.md says", _find, _read)
