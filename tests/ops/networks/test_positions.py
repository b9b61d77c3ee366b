"""The encoding of positions, and the layer that adds it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profkit.errors import SpecError
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.networks.work import StepWork, network_work
from tests.ops.networks.small import small_networks


@pytest.mark.parametrize("width", [8, 5])
def test_positions_are_sines_and_cosines_of_growing_wavelengths(width: int) -> None:
    table = encoded_positions(7, width)

    assert table.shape == (7, width)
    for position in range(7):
        for i in range(width):
            angle = position / 10000.0 ** ((i - i % 2) / width)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert table[position, i] == pytest.approx(expected, abs=1e-12)


def test_a_transformer_adds_them_to_its_embedding_and_learns_nothing_of_them() -> None:
    network = next(network for network in small_networks() if network.name == "transformer")
    layer = network.layer("positions")

    assert layer.inputs == ("embedding",) and layer.parameter_shapes() == {} and layer.state_shapes() == {}
    assert [each.name for each in network.layers if "positions" in each.inputs] == ["block1_norm1", "block1_add1"]
    assert np.abs(encoded_positions(*layer.output_shape[1:])).max() <= 1.0


def test_all_sequences_of_a_batch_read_one_table() -> None:
    network = next(network for network in small_networks() if network.name == "transformer")

    batch, steps, width = network.layer("positions").output_shape

    work = network_work(network)["positions", "forward", "add"]
    assert work == StepWork(batch * steps * width, 4 * (2 * batch + 1) * steps * width)


def test_images_have_no_positions_of_a_sequence() -> None:
    with pytest.raises(SpecError, match=r"a takes \[batch, steps, features\], but images gives 2x3x8x8"):
        Graph((2, 3, 8, 8)).positions("a")
