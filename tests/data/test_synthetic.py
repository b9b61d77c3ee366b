"""Synthetic data: seeded, of the network's shape, learnable, and called what it is."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.data import synthetic, synthetic_data
from profkit.data.preparation.rain import rain_rate
from profkit.data.synthetic import HMDIR
from profkit.ops.networks import NETWORKS, Cifar10, Mlp, Network, Solar
from profkit.ops.networks.network import SQUARED_ERROR


class Shaped(Network):
    """Only what data depend on."""

    vocabulary = 0

    def __init__(self, data: str, loss: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        for name, value in {"data": data, "loss": loss, "_inputs": inputs, "_outputs": outputs}.items():
            object.__setattr__(self, name, value)

    def input_shape(self) -> tuple[int, ...]:
        return self._inputs  # type: ignore[attr-defined,no-any-return]

    def output_shape(self) -> tuple[int, ...]:
        return self._outputs  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("network", [Cifar10(batch=5, crop=24), Mlp(batch=5), Solar(batch=5)], ids=str)
def test_it_is_seeded_says_what_it_is_and_fits_the_network(network: Network) -> None:
    data, again = synthetic_data(network, seed=3), synthetic_data(network, seed=3)

    images, labels = data.batch(5)

    assert data.is_synthetic
    assert data.description == f"synthetic data shaped as {network.data} (patterns under noise, seed 3)"
    assert images.shape == network.input_shape() and images.dtype == np.float32 and len(labels) == 5
    assert np.array_equal(data.train_images, again.train_images) and np.array_equal(data.test_labels, again.test_labels)


def test_classes_can_be_told_apart() -> None:
    data = synthetic_data(Cifar10(batch=8, crop=24), seed=0, train=600, test=200)

    means = np.stack([data.train_images[data.train_labels == label].mean(axis=0) for label in range(10)])
    scores = np.tensordot(data.test_images, means, axes=([1, 2, 3], [1, 2, 3]))

    assert (scores.argmax(axis=1) == data.test_labels).mean() > 0.9


def test_of_large_images_there_are_fewer_but_a_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "MOST_BYTES", 4 << 20)
    shape = (3, 64, 64)
    usual = synthetic_data(Shaped("ImageNet", "cross_entropy", (2, *shape), (2, 1000)), train=400, test=100)
    batch = synthetic_data(Shaped("ImageNet", "cross_entropy", (99, *shape), (99, 1000)), train=1, test=1)

    assert usual.train_images.nbytes + usual.test_images.nbytes <= 4 << 20
    assert (len(usual.train_images), len(usual.test_images)) == (68, 17)
    assert len(batch.train_images) == len(batch.test_images) == 99


def test_rain_is_what_the_radar_of_the_hour_gives() -> None:
    data = synthetic_data(Shaped(HMDIR, SQUARED_ERROR, (4, 19, 24), (4, 1)), train=300, test=50)

    inputs, rain = data.train_images, data.train_labels[:, 0]
    lengths, mean_rates = inputs[:, 0, 22].astype(int), inputs[:, 0, 23]

    assert "radar scans and their Marshall-Palmer rain" in data.description
    assert np.isfinite(inputs).all() and inputs.shape == (300, 19, 24) and data.train_labels.shape == (300, 1)
    assert all((inputs[row, length:] == 0).all() for row, length in enumerate(lengths))
    assert np.corrcoef(mean_rates, rain)[0, 1] > 0.8
    one = int(np.flatnonzero(lengths >= 2)[0])
    scans = inputs[one, : lengths[one], 2]
    assert mean_rates[one] == pytest.approx(rain_rate(np.where(scans == 0, np.nan, scans)).mean(), rel=1e-5)


def test_words_of_a_class_come_more_often() -> None:
    network = NETWORKS["imdb_lstm"](batch=4, length=40, known_words=31)
    data = synthetic_data(network, train=200, test=50)

    words, labels = data.batch(4)
    assert words.shape == (4, 40) and words.dtype == np.int64 and labels.shape == (4, 1) and labels.dtype == np.float32
    assert data.train_images.min() == 0 and data.train_images.max() == 30
    odd = (data.train_images % 2 == 1).mean(axis=1)
    assert odd[data.train_labels[:, 0] == 1].mean() > 0.7 > 0.3 > odd[data.train_labels[:, 0] == 0].mean()
    assert "shaped as IMDB" in data.description
