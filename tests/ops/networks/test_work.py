"""Flops and bytes of a network's steps: by formula here and by counting in plain loops there."""

from __future__ import annotations

import pytest

from profkit.ops.networks import Cifar10, LeNet, Mlp, Network, Solar, Training
from profkit.ops.networks.work import StepWork, fused, network_work

NETWORKS: tuple[Network, ...] = (Cifar10(crop=24), Cifar10(stride=3), LeNet(), Mlp(), Solar())


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_forward_products_are_twice_the_multiply_adds(network: Network) -> None:
    work = network_work(network)

    products = sum(part.flops for (_, _, kind), part in work.items() if kind in ("conv2d", "matmul"))

    assert products == 2 * network.multiply_adds() * network.input_shape()[0]
    assert {phase for _, phase, _ in work} == {"forward"}


def test_the_parts_of_a_convolution_layer_by_hand() -> None:
    work = network_work(Cifar10(batch=2, crop=24))
    outputs, inputs, weights = 2 * 64 * 24 * 24, 2 * 3 * 24 * 24, 64 * 3 * 25

    # Of 24 rows of 5 taps, the outer two lose 2 and 1 at each end; the same along the width.
    inside = 2 * 64 * 2 * 3 * (24 * 5 - 6) ** 2
    expected = StepWork(2 * 75 * outputs, 4 * (inputs + weights + outputs), padding_flops=2 * 75 * outputs - inside)
    assert work["conv1", "forward", "conv2d"] == expected
    assert expected.least_flops == inside
    assert work["conv1", "forward", "bias"] == StepWork(outputs, 4 * (2 * outputs + 64), 4 * outputs)
    assert work["conv1", "forward", "relu"] == StepWork(outputs, 8 * outputs, 4 * outputs)


def test_a_fused_convolution_moves_no_intermediate_result() -> None:
    work = network_work(Cifar10(batch=2, crop=24))
    parts = [work["conv1", "forward", kind] for kind in ("conv2d", "bias", "relu")]

    whole = fused(parts)

    assert whole.flops == sum(part.flops for part in parts)
    assert whole.bytes == parts[0].bytes + 4 * 64


def test_the_backward_pass_has_two_products_per_layer_but_one_in_the_first() -> None:
    work = network_work(Cifar10(crop=24), Training())

    def products(layer: str, phase: str) -> int:
        return sum(work[layer, phase, kind].flops for kind in ("conv2d", "matmul") if (layer, phase, kind) in work)

    assert products("conv1", "backward") == products("conv1", "forward")
    for layer in ("conv2", "local3", "local4", "softmax_linear"):
        assert products(layer, "backward") == 2 * products(layer, "forward")


def test_the_optimiser_touches_every_parameter() -> None:
    network = Cifar10(crop=24)

    plain = network_work(network, Training(weight_decay=False))
    with_momentum = network_work(network, Training(momentum=0.9, weight_decay=False))
    with_decay = network_work(network, Training())

    def total(work: dict[tuple[str, str, str], StepWork]) -> tuple[int, int]:
        parts = [part for (_, phase, _), part in work.items() if phase == "optimiser"]
        return sum(part.flops for part in parts), sum(part.bytes for part in parts)

    count = network.parameter_count()
    assert total(plain) == (2 * count, 12 * count)
    assert total(with_momentum) == (4 * count, 20 * count)
    assert total(with_decay) == (2 * count + 2 * (2304 * 384 + 384 * 192), 12 * count)


def test_dropout_costs_something_in_training_only() -> None:
    network = Solar(batch=2)

    assert not [key for key in network_work(network) if key[2] == "dropout"]
    assert len([key for key in network_work(network, Training()) if key[2] == "dropout"]) == 4
