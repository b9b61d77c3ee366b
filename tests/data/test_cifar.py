"""CIFAR-10's published files, both versions: whole, damaged, missing, and prepared for its network."""

from __future__ import annotations

import _codecs
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.data import Data, load_data
from profkit.errors import UsageError
from profkit.ops.networks import Cifar10

FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PER_FILE = 20


def load(folder: Path, crop: int = 32) -> Data:
    return load_data(folder, Cifar10(batch=2, crop=crop))


def made_up_records(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (PER_FILE, 3072), np.uint8), generator.integers(0, 10, PER_FILE)


def write_binary(folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, name in enumerate(FILES):
        pixels, labels = made_up_records(seed)
        records = np.concatenate([labels.astype(np.uint8)[:, None], pixels], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_python(folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, name in enumerate(FILES):
        pixels, labels = made_up_records(seed)
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"labels": labels.tolist()}, protocol=2))


def test_both_versions_of_cifar10_give_the_same_images(tmp_path: Path) -> None:
    write_binary(tmp_path / "one" / "cifar-10-batches-bin")
    write_python(tmp_path / "two")

    binary, python = load(tmp_path / "one"), load(tmp_path / "two")

    assert np.array_equal(binary.train_images, python.train_images)
    assert np.array_equal(binary.test_labels, python.test_labels)
    assert binary.train_images.shape == (5 * PER_FILE, 3, 32, 32) and not binary.is_synthetic
    assert "not the published files" in binary.description and "not the published files" in python.description


def test_images_are_cropped_in_the_middle_and_standardised(tmp_path: Path) -> None:
    write_binary(tmp_path / "files")

    data = load(tmp_path / "files", crop=24)

    pixels, _ = made_up_records(0)
    middle = pixels[0].reshape(3, 32, 32)[:, 4:28, 4:28].astype(np.float64)
    expected = (middle - middle.mean()) / middle.std()
    assert np.allclose(data.train_images[0], expected, atol=1e-5)


def test_a_missing_folder_or_file_says_where_to_get_it(tmp_path: Path) -> None:
    write_binary(tmp_path / "files")
    (tmp_path / "files" / "data_batch_3.bin").unlink()
    (tmp_path / "empty").mkdir()

    with pytest.raises(UsageError, match=r"lacks data_batch_3\.bin: download"):
        load(tmp_path / "files")
    with pytest.raises(UsageError, match="no CIFAR-10 "):
        load(tmp_path / "empty")
    with pytest.raises(UsageError, match="there is no file or folder"):
        load(tmp_path / "nowhere")


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (print, ("ran",))


class Made:
    """What a pickle calls when it is read."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.called = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.called


def doubled(times: int) -> object:
    """A text that is twice as long after each encoding."""
    found: object = "a"
    for _ in range(times):
        found = Made(_codecs.encode, found, "hex")
    return found


def nested_lists() -> list[Any]:
    """A short pickle whose array would have 2^40 elements."""
    nested: list[Any] = [0]
    for _ in range(40):
        nested = [nested, nested]
    return nested


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_2.bin", bytes(61_453), r"data_batch_2\.bin is damaged: 61,453 bytes"),
        ("test_batch.bin", b"\x0b" + bytes(3072), r"test_batch\.bin is damaged: labels up to 11"),
        ("data_batch_1", b"not a pickle", "data_batch_1 is damaged"),
        # A pickle that would run code.
        (
            "data_batch_4",
            pickle.dumps({b"data": Harmful(), b"labels": []}),
            r"data_batch_4 is damaged.*builtins\.print",
        ),
        (
            "test_batch",
            pickle.dumps({b"data": nested_lists(), b"labels": nested_lists()}),
            "test_batch is damaged: TypeError: its data are no array",
        ),
        (
            "data_batch_3",
            pickle.dumps({b"data": Made(np.ndarray, (1_000_000, 3072), "u1", b"0", 0, (0, 0)), b"labels": [1] * 1000}),
            "data_batch_3 is damaged: ValueError: its data are 3,072,000,000 numbers in 2,",
        ),
        (
            "data_batch_5",
            pickle.dumps({b"data": doubled(30), b"labels": [1]}),
            "data_batch_5 is damaged: UnpicklingError: it has text in 'hex', expected latin1",
        ),
    ],
)
def test_damaged_files_are_named(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (write_binary if name.endswith(".bin") else write_python)(tmp_path / "files")
    (tmp_path / "files" / name).write_bytes(content)

    with pytest.raises(UsageError, match=said):
        load(tmp_path / "files")


def test_a_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    write_binary(tmp_path / "long")
    os.truncate(tmp_path / "long" / "test_batch.bin", 100_000 * 3073 * 100)

    with pytest.raises(UsageError, match=r"test_batch\.bin has 30,730,000,000 bytes, more than 307,300,000: it is not"):
        load(tmp_path / "long")
