"""CIFAR-10 from a folder with its published files, binary or Python version: a folder in, checked Data out.

A file that is cut or has impossible labels is an error with its name; files that are whole but not the published ones
(other digests) are used, and every output says so.
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import IO, Any

import numpy as np

from profkit.errors import UsageError
from profkit.ops.networks.data import Data
from profkit.ops.spec import Array

WHERE = (
    "download cifar-10-binary.tar.gz or cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, "
    "unpack it and give the folder; without --data, synthetic images are used"
)
SIDE, CHANNELS, CLASSES = 32, 3, 10
PIXELS = CHANNELS * SIDE * SIDE
TRAINING, TEST = tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch"
SUBFOLDERS = {".bin": "cifar-10-batches-bin", "": "cifar-10-batches-py"}
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
ImageLabels = tuple[Array, Array]


def load_cifar10(folder: str | Path, crop: int = SIDE) -> Data:
    """Images cropped in the middle and standardised one by one, as the tutorial evaluates them; labels as they are."""
    place, suffix = _find(Path(folder))
    read = _read_binary if suffix else _read_python
    parts = [read(place / f"{name}{suffix}") for name in (*TRAINING, TEST)]
    images = [_prepared(pixels, crop) for pixels, _ in parts]
    labels = [numbers for _, numbers in parts]
    is_published = all(_is_published(place / f"{name}{suffix}") for name in (*TRAINING, TEST))
    remark = "" if is_published else ", not the published files"
    description = f"CIFAR-10, {'binary' if suffix else 'Python'} version{remark}"
    return Data(description, np.concatenate(images[:-1]), np.concatenate(labels[:-1]), images[-1], labels[-1])


def _find(folder: Path) -> tuple[Path, str]:
    """The folder that has the files, and their suffix; UsageError with what is missing."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}: {WHERE}")
    for suffix, subfolder in SUBFOLDERS.items():
        for place in (folder, folder / subfolder):
            missing = [name for name in (*TRAINING, TEST) if not (place / f"{name}{suffix}").is_file()]
            if not missing:
                return place, suffix
            if len(missing) <= len(TRAINING):
                raise UsageError(f"{place} lacks {', '.join(f'{name}{suffix}' for name in missing)}: {WHERE}")
    raise UsageError(f"{folder} has no CIFAR-10 files (data_batch_1.bin or data_batch_1, ...): {WHERE}")


def _read_binary(path: Path) -> ImageLabels:
    """Records of one label byte and 3072 pixels: red, green, blue, each row by row."""
    raw = np.fromfile(path, np.uint8)
    if not len(raw) or len(raw) % (1 + PIXELS):
        raise UsageError(
            f"{path} is damaged: {len(raw):,} bytes are not a whole number of records of {1 + PIXELS:,} bytes "
            f"(the published file has {PUBLISHED_BYTES:,}); {WHERE}"
        )
    records = raw.reshape(-1, 1 + PIXELS)
    return _checked(path, records[:, 1:], records[:, 0])


def _read_python(path: Path) -> ImageLabels:
    """A pickled dictionary with `data` [n, 3072] and `labels`."""
    try:
        with path.open("rb") as stream:
            content = _ArraysOnly(stream).load()
        pixels = np.asarray(content[b"data"], np.uint8)
        labels = np.asarray(content[b"labels"], np.int64)
    except Exception as error:  # whatever a damaged pickle may raise
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}; {WHERE}") from None
    if pixels.ndim != 2 or pixels.shape[1] != PIXELS or labels.shape != (len(pixels),):
        raise UsageError(
            f"{path} is damaged: data {pixels.shape} and labels {labels.shape}, expected [n, {PIXELS}] and [n]; {WHERE}"
        )
    return _checked(path, pixels, labels)


def _checked(path: Path, pixels: Array, labels: Array) -> ImageLabels:
    if not len(labels) or int(labels.min()) < 0 or int(labels.max()) >= CLASSES:
        found = f"labels up to {labels.max()}" if len(labels) else "no images"
        raise UsageError(f"{path} is damaged: {found}, expected 0 to {CLASSES - 1}; {WHERE}")
    return pixels.reshape(-1, CHANNELS, SIDE, SIDE), labels.astype(np.int64)


class _ArraysOnly(pickle.Unpickler):
    """A pickle can run any code; this one makes NumPy arrays and nothing else."""

    _ALLOWED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    )

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data file needs")
        if module == "numpy.core.multiarray":
            # Its name until NumPy 2; the old one still works there, but warns.
            module = np.ndarray.__reduce__(np.zeros(1))[0].__module__
        return super().find_class(module, name)


def _is_published(path: Path) -> bool:
    if path.suffix:
        return path.stat().st_size == PUBLISHED_BYTES
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == DIGESTS[path.name]


def _prepared(pixels: Array, crop: int) -> Array:
    """Middle of the image, mean 0 and deviation 1 per image; an image of one colour stays near 0."""
    start = (SIDE - crop) // 2
    images: Array = pixels[:, :, start : start + crop, start : start + crop].astype(np.float32)
    axes = (1, 2, 3)
    deviation = np.maximum(images.std(axis=axes, keepdims=True), 1 / np.sqrt(images[0].size))
    result: Array = ((images - images.mean(axis=axes, keepdims=True)) / deviation).astype(np.float32)
    return result
