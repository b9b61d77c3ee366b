"""The real files beside a checkout (../shared/data), where they are: counts, and what the studies make of them."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.data import Data, load_data
from profkit.data.loading import SOURCES
from profkit.data.preparation.pixels import normalised_width
from profkit.ops.networks import Cifar10, Mlp
from tests.support.places import DATA

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no real data beside this checkout (../shared/data)")


def test_mnist_has_its_published_counts_and_digits_fit_into_twenty_columns() -> None:
    data = read("MNIST")

    assert (data.train_images.shape, data.test_images.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert np.bincount(data.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    narrow = normalised_width(data.test_images[:500])
    assert narrow.shape == (500, 1, 28, 20) and narrow.any(axis=(1, 2)).all()


def test_shuttle_has_its_published_counts() -> None:
    data = load_data(DATA, Mlp())

    assert (data.train_images.shape, data.test_images.shape) == ((43_500, 8), (14_500, 8))
    classes = np.bincount(np.concatenate([data.train_labels, data.test_labels]))
    assert classes.tolist() == [45_586, 50, 171, 8_903, 3_267, 10, 13]
    assert np.allclose(data.train_images.mean(axis=0), 0, atol=1e-4)


@pytest.mark.full
def test_cifar10_has_its_published_counts_and_its_classes_differ_in_colour() -> None:
    pytest.importorskip("PIL", reason="JPEG needs Pillow")
    data = read("CIFAR-10")

    assert (data.train_images.shape, data.test_images.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
    assert np.bincount(data.train_labels).tolist() == [5000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10
    # The published files have the mean colour 125.3, 123.0, 113.9; JPEG changes it a little.
    assert np.allclose(data.train_images.mean(axis=(0, 2, 3)), [125.3, 123.0, 113.9], atol=0.5)
    prepared = load_data(DATA, Cifar10(crop=24))
    assert prepared.train_images.shape == (50_000, 3, 24, 24) and "re-encoded as JPEG" in prepared.description


def read(data_set: str) -> Data:
    source = next(source for source in SOURCES if source.data_set == data_set and source.find(DATA))
    place = source.find(DATA)
    assert place is not None
    return source.read(place)
