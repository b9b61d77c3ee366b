"""The float64 reference of graphs: gradients against differences of the loss, running statistics, optimisers, masks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from profkit.data import synthetic_data
from profkit.errors import SpecError
from profkit.ops.networks import Network, Training
from profkit.ops.networks.initialisers import fans, glorot, he, orthogonal, uniform
from profkit.ops.networks.layer import LAYER_KINDS
from profkit.ops.networks.reference import (
    Optimiser,
    dropout_masks,
    reference_gradients,
    reference_logits,
    reference_step,
)
from tests.ops.networks.small import small_networks

# Together they have every kind of layer.
DIFFERENTIATED = ("cifar10", "dnn_w20", "basic_svhn", "wrn_16_8", "googlenet", "imdb_lstm", "hmdir_lstm", "transformer")
MOST_PER_KIND = 2
STEP = 1e-6


def small(name: str) -> Network:
    return next(network for network in small_networks() if network.name == name)


def test_gradients_of_every_kind_agree_with_differences_of_the_loss() -> None:
    """At the largest element of each parameter, of the first layers of every kind."""
    seen: set[str] = set()
    for network in map(small, DIFFERENTIATED):
        images, labels = synthetic_data(network, train=4, test=4).batch(network.input_shape()[0])
        masks = dropout_masks(network)
        weights = {name: values.astype(np.float64) for name, values in network.initial_weights().items()}
        _, gradients = reference_gradients(network, weights, images, labels, masks)
        seen |= {layer.kind for layer in network.layers}
        counts: Counter[str] = Counter()
        for layer in network.layers:
            counts[layer.kind] += 1
            for name in layer.parameter_shapes() if counts[layer.kind] <= MOST_PER_KIND else ():
                place = np.unravel_index(int(np.abs(gradients[name]).argmax()), gradients[name].shape)
                losses = []
                for sign in (1, -1):
                    moved = {**weights, name: weights[name].copy()}
                    moved[name][place] += sign * STEP
                    losses.append(reference_gradients(network, moved, images, labels, masks)[0])
                difference = (losses[0] - losses[1]) / (2 * STEP)
                assert difference == pytest.approx(gradients[name][place], rel=1e-3, abs=1e-8), (network.name, name)
    assert seen == set(LAYER_KINDS)


def test_masks_are_the_same_for_a_seed_and_keep_the_mean() -> None:
    network = small("cnn_relu")

    masks, again = dropout_masks(network, 3), dropout_masks(network, 3)

    assert masks.keys() == {layer.name for layer in network.layers if layer.kind == "dropout"}
    assert all(np.array_equal(masks[name], again[name]) for name in masks)
    assert not any(np.array_equal(mask, masks[name]) for name, mask in dropout_masks(network, 3, step=1).items())
    kept = masks["dropout1_before"]
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(1, abs=0.05)


def test_running_statistics_move_a_tenth_of_the_way_and_inference_takes_them() -> None:
    network = small("wrn_16_8")
    images, labels = synthetic_data(network, train=4, test=4).batch(2)
    weights = network.initial_weights()

    _, new = reference_step(network, Training(), weights, images, labels)

    (first, norm), *_ = zip(network.layers, network.layers[1:])
    assert norm.name == "block1_1_norm1" and first.name == "conv1"
    spec = first.spec
    assert spec is not None
    x = spec.reference({"x": images, "w": weights["conv1.w"]})
    assert np.allclose(new["block1_1_norm1.mean"], 0.1 * x.mean(axis=(0, 2, 3)), atol=1e-12)
    assert np.allclose(new["block1_1_norm1.variance"], 0.9 + 0.1 * x.var(axis=(0, 2, 3)))
    assert not np.allclose(reference_logits(network, weights, images), reference_logits(network, new, images))


@pytest.mark.parametrize(
    "training",
    [
        Training(momentum=0.9, nesterov=True, learning_rate=0.05),
        Training(optimizer="adam", learning_rate=0.01),
        Training(optimizer="rmsprop", learning_rate=0.01, epsilon=0.001),
    ],
    ids=lambda training: training.optimizer,
)
def test_the_first_and_the_third_step_follow_the_formulas(training: Training) -> None:
    """Of every optimiser, with numbers one by one."""
    network = small("hmdir_lstm")
    w, gradient = 0.3, [0.2, -0.4, 0.1]
    weights = {name: np.full(shape, w) for name, shape in network.parameter_shapes().items()}
    optimiser = Optimiser(network, training)
    first = second = 0.0
    for step, g in enumerate(gradient, start=1):
        weights = optimiser.step(weights, {name: np.full_like(values, g) for name, values in weights.items()})
        if training.optimizer == "sgd":
            first = 0.9 * first + g
            w -= 0.05 * (g + 0.9 * first)
        elif training.optimizer == "adam":
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
            w -= 0.01 * (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)) ** 0.5 + 1e-7)
        else:
            second = 0.9 * second + 0.1 * g * g
            w -= 0.01 * g / (second**0.5 + 0.001)
        if step != 2:
            assert all(np.allclose(values, w, rtol=1e-12) for values in weights.values()), step


def test_schedules_change_the_rate_by_epoch_or_iteration() -> None:
    steps = Training(learning_rate=0.1, schedule="steps", schedule_at="2,5")
    assert [steps.rates(epoch)[0] for epoch in (0, 1, 2, 4, 5)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    by_iteration = steps.replaced(schedule_by="iteration")
    assert by_iteration.rates(epoch=9, iteration=1)[0] == 0.1 and by_iteration.rates(0, 2)[0] == pytest.approx(0.01)
    falling = Training(learning_rate=0.001, schedule="exponential", schedule_factor=0.993, least_rate=0.00003)
    assert falling.rates(1)[0] == pytest.approx(0.000993) and falling.rates(2000)[0] == 0.00003
    growing = Training(momentum=0.9, momentum_drop=0.4)
    assert growing.rates(0)[1] == pytest.approx(0.5)
    assert growing.rates(10)[1] == pytest.approx(0.9 - 0.4 * np.exp(-0.6))
    assert Training().is_constant and not growing.is_constant and not steps.is_constant
    with pytest.raises(SpecError, match=r"momentum_drop must be below the momentum 0\.9, got 0\.9"):
        Training(momentum=0.9, momentum_drop=0.9)  # the first epoch would have no velocity


def test_initialisers_have_the_spread_that_they_say() -> None:
    generator = np.random.default_rng(0)

    assert fans((6, 3, 5, 5)) == (75, 150)
    filters = glorot().values(generator, (60, 30, 5, 5))
    assert np.abs(filters).max() == pytest.approx((6 / (30 * 25 + 60 * 25)) ** 0.5, rel=1e-3)
    assert he().values(generator, (200, 300)).std() == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert np.abs(uniform(0.05).values(generator, (100, 100))).max() == pytest.approx(0.05, rel=1e-2)
    for shape in ((7, 20), (20, 7)):
        matrix = orthogonal().values(generator, shape)
        product = matrix @ matrix.T if shape[0] < shape[1] else matrix.T @ matrix
        assert np.allclose(product, np.eye(7), atol=1e-6)


def test_gates_of_an_lstm_begin_open_to_what_it_knows() -> None:
    weights = small("imdb_lstm").initial_weights()

    assert weights["lstm1.b"].tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
