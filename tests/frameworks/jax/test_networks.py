"""Networks in JAX give what float64 gives, in inference and in training."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.nhwc import images_to_nhwc, weights_from_nhwc, weights_to_nhwc
from profkit.ops.networks import Cifar10, Mlp, Solar
from tests.frameworks.networks.network_process import outcome


def test_the_reader_learns_of_the_layout_and_of_the_composed_normalisation() -> None:
    notes = outcome("jax", "jit").facts["notes"]

    assert any("NHWC" in note for note in notes)
    assert any("no LRN" in note for note in notes)


def test_numbers_stay_32_bit_as_in_other_peoples_programs() -> None:
    environment = load_builder("jax").environment(NetworkConditions(mode="jit"))

    assert environment["JAX_PLATFORMS"] == "cpu"
    assert "JAX_ENABLE_X64" not in environment


def test_nhwc_weights_compute_the_same_on_nhwc_images() -> None:
    network = Cifar10(batch=2, crop=24, filters=4)
    weights = network.initial_weights()
    images = np.random.default_rng(0).standard_normal((2, 4, 6, 6), dtype=np.float32)

    converted = weights_to_nhwc(network, weights)
    flat = images_to_nhwc(images).reshape(2, -1)

    expected = images.reshape(2, -1) @ weights["local3.w"]
    np.testing.assert_allclose(flat @ converted["local3.w"], expected, rtol=1e-4, atol=1e-4)
    assert converted["conv2.w"].shape == (5, 5, 4, 4)
    np.testing.assert_array_equal(converted["conv1.w"][1, 2, 0, 3], weights["conv1.w"][3, 0, 1, 2])
    np.testing.assert_array_equal(converted["local4.w"], weights["local4.w"])


@pytest.mark.parametrize("network", [Cifar10(batch=2, crop=24, filters=4), Solar(batch=1), Mlp(batch=2)])
def test_converting_weights_there_and_back_changes_nothing(network: Cifar10 | Solar | Mlp) -> None:
    weights = network.initial_weights()

    back = weights_from_nhwc(network, weights_to_nhwc(network, weights))

    assert back.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(back[name], array)
