"""Data for networks: synthetic images that can be learned, and CIFAR-10 files, whole and damaged."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import UsageError
from profkit.ops.networks import Cifar10, Mlp, Solar
from profkit.ops.networks.cifar_files import load_cifar10
from profkit.ops.networks.data import synthetic_data

FILES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PER_FILE = 20


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


@pytest.mark.parametrize("network", [Cifar10(batch=5, crop=24), Mlp(batch=5), Solar(batch=5)], ids=str)
def test_synthetic_data_is_seeded_says_what_it_is_and_fits_the_network(network: Cifar10 | Mlp | Solar) -> None:
    data, again = synthetic_data(network, seed=3), synthetic_data(network, seed=3)

    images, labels = data.batch(5)

    assert data.is_synthetic and "synthetic" in data.description
    assert images.shape == network.input_shape() and images.dtype == np.float32 and len(labels) == 5
    assert np.array_equal(data.train_images, again.train_images) and np.array_equal(data.test_labels, again.test_labels)


def test_synthetic_classes_can_be_told_apart() -> None:
    data = synthetic_data(Cifar10(batch=8, crop=24), seed=0, train=600, test=200)

    means = np.stack([data.train_images[data.train_labels == label].mean(axis=0) for label in range(10)])
    scores = np.tensordot(data.test_images, means, axes=([1, 2, 3], [1, 2, 3]))

    assert (scores.argmax(axis=1) == data.test_labels).mean() > 0.9


def test_both_versions_of_cifar10_give_the_same_images(tmp_path: Path) -> None:
    write_binary(tmp_path / "one" / "cifar-10-batches-bin")
    write_python(tmp_path / "two")

    binary, python = load_cifar10(tmp_path / "one"), load_cifar10(tmp_path / "two")

    assert np.array_equal(binary.train_images, python.train_images)
    assert np.array_equal(binary.test_labels, python.test_labels)
    assert binary.train_images.shape == (5 * PER_FILE, 3, 32, 32) and not binary.is_synthetic
    assert "not the published files" in binary.description and "not the published files" in python.description


def test_images_are_cropped_in_the_middle_and_standardised(tmp_path: Path) -> None:
    write_binary(tmp_path / "files")

    data = load_cifar10(tmp_path / "files", crop=24)

    pixels, _ = made_up_records(0)
    middle = pixels[0].reshape(3, 32, 32)[:, 4:28, 4:28].astype(np.float64)
    expected = (middle - middle.mean()) / middle.std()
    assert np.allclose(data.train_images[0], expected, atol=1e-5)


def test_a_missing_folder_or_file_says_where_to_get_it(tmp_path: Path) -> None:
    write_binary(tmp_path / "files")
    (tmp_path / "files" / "data_batch_3.bin").unlink()
    (tmp_path / "empty").mkdir()

    with pytest.raises(UsageError, match=r"lacks data_batch_3\.bin: download"):
        load_cifar10(tmp_path / "files")
    with pytest.raises(UsageError, match="no CIFAR-10 files"):
        load_cifar10(tmp_path / "empty")
    with pytest.raises(UsageError, match="there is no folder"):
        load_cifar10(tmp_path / "nowhere")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write_binary(tmp_path / "cut")
    path = tmp_path / "cut" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-7])
    write_binary(tmp_path / "labels")
    (tmp_path / "labels" / "test_batch.bin").write_bytes(b"\x0b" + bytes(3072))
    write_python(tmp_path / "pickle")
    (tmp_path / "pickle" / "data_batch_1").write_bytes(b"not a pickle")

    with pytest.raises(UsageError, match=r"data_batch_2\.bin is damaged: 61,453 bytes"):
        load_cifar10(tmp_path / "cut")
    with pytest.raises(UsageError, match=r"test_batch\.bin is damaged: labels up to 11"):
        load_cifar10(tmp_path / "labels")
    with pytest.raises(UsageError, match="data_batch_1 is damaged"):
        load_cifar10(tmp_path / "pickle")


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str, ...]]:
            return (print, ("ran",))

    write_python(tmp_path / "files")
    (tmp_path / "files" / "data_batch_4").write_bytes(pickle.dumps({b"data": Harmful(), b"labels": []}))

    with pytest.raises(UsageError, match=r"data_batch_4 is damaged.*builtins\.print"):
        load_cifar10(tmp_path / "files")
