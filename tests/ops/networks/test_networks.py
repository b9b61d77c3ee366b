"""Networks as graphs of specs, shapes, errors, and gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.data import synthetic_data
from profkit.errors import SpecError, UnsupportedError, UsageError
from profkit.ops.networks import NETWORKS, Cifar10, LeNet, Mlp, Network, Solar, Training, network_from_dict
from profkit.ops.networks.reference import reference_gradients, reference_logits, reference_step

SMALL: tuple[Network, ...] = (
    Cifar10(batch=3, crop=24, filters=5),
    Cifar10(batch=2, crop=24, filters=4, stride=3, pool=5, pool_stride=3),
    LeNet(batch=3, maps=2),
    Mlp(batch=4, hidden=2, neurons=9),
    Solar(batch=2, dropout=False),
)


def test_cifar10_with_the_tutorials_crop_has_the_published_parameters_and_derived_multiply_adds() -> None:
    network = Cifar10(crop=24)

    assert network.parameter_count() == 1_068_298
    parameters = {layer.name: sum(map(np.prod, layer.parameter_shapes().values())) for layer in network.layers}
    assert parameters["conv1"] == 4_864 and parameters["conv2"] == 102_464 and parameters["local3"] == 885_120
    assert parameters["local4"] == 73_920 and parameters["softmax_linear"] == 1_930
    multiply_adds = {layer.name: layer.multiply_adds() for layer in network.layers}
    assert multiply_adds["conv1"] == 576 * 75 * 64 and multiply_adds["conv2"] == 144 * 1600 * 64
    assert multiply_adds["local3"] == 2304 * 384 and network.multiply_adds() == 18_470_784


@pytest.mark.parametrize(
    ("stride", "sizes"), [(1, (32, 16, 16, 8)), (2, (16, 8, 4, 2)), (3, (11, 6, 2, 1)), (5, (7, 4, 1, 1))]
)
def test_the_studys_strides_give_the_sizes_of_same_padding(stride: int, sizes: tuple[int, ...]) -> None:
    network = Cifar10(stride=stride)

    assert tuple(network.layer(name).output_shape[2] for name in ("conv1", "pool1", "conv2", "pool2")) == sizes


@pytest.mark.parametrize("network", SMALL, ids=str)
def test_each_layer_takes_what_the_one_before_gives(network: Network) -> None:
    shapes = {"images": network.input_shape()}

    for layer in network.layers:
        if layer.spec is not None:
            assert next(iter(layer.spec.input_shapes().values())) == shapes[layer.inputs[0]]
        shapes[layer.name] = layer.output_shape

    data = synthetic_data(network)
    images, _ = data.batch(network.input_shape()[0])
    assert reference_logits(network, network.initial_weights(), images).shape == network.output_shape()


@pytest.mark.parametrize(
    "network",
    # Differences of every weight of a larger network take long.
    [pytest.param(each, marks=pytest.mark.full if isinstance(each, Solar) else (), id=str(each)) for each in SMALL],
)
def test_reference_gradients_agree_with_differences_of_the_loss(network: Network) -> None:
    images, labels = synthetic_data(network).batch(network.input_shape()[0])
    weights = {name: values.astype(np.float64) for name, values in network.initial_weights().items()}
    _, gradients = reference_gradients(network, weights, images, labels)
    step = 1e-6

    for name, gradient in gradients.items():
        place = np.unravel_index(int(np.abs(gradient).argmax()), gradient.shape)
        losses = []
        for sign in (1, -1):
            moved = {**weights, name: weights[name].copy()}
            moved[name][place] += sign * step
            losses.append(reference_gradients(network, moved, images, labels)[0])
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(gradient[place], rel=1e-4, abs=1e-9), name


def test_decay_pulls_only_at_the_weights_that_have_one() -> None:
    network = Cifar10(batch=2, crop=24, filters=4)
    images, labels = synthetic_data(network).batch(2)
    weights = network.initial_weights()

    _, with_decay = reference_step(network, Training(), weights, images, labels)
    _, without = reference_step(network, Training(weight_decay=False), weights, images, labels)

    changed = {name for name in weights if not np.array_equal(with_decay[name], without[name])}
    assert changed == {"local3.w", "local4.w"}
    expected = without["local3.w"] - 0.1 * 0.004 * weights["local3.w"].astype(np.float64)
    assert np.allclose(with_decay["local3.w"], expected, rtol=1e-12, atol=0)


def test_weights_begin_alike_for_a_seed_and_within_two_deviations() -> None:
    network = Cifar10(crop=24)

    weights, again, other = network.initial_weights(1), network.initial_weights(1), network.initial_weights(2)

    assert all(np.array_equal(weights[name], again[name]) for name in weights)
    assert not np.array_equal(weights["conv1.w"], other["conv1.w"])
    assert np.abs(weights["conv2.w"]).max() <= 0.1 and weights["conv2.w"].std() == pytest.approx(0.044, rel=0.02)
    assert (weights["conv2.b"] == np.float32(0.1)).all() and (weights["conv1.b"] == 0).all()


def test_training_with_dropout_has_no_reference_without_masks() -> None:
    network = Solar(batch=2)
    images, labels = synthetic_data(network).batch(2)

    with pytest.raises(UnsupportedError, match=r"dropout \(dropout1, dropout2\): its masks are needed"):
        reference_gradients(network, network.initial_weights(), images, labels)


@pytest.mark.parametrize("kind", NETWORKS.values())
def test_a_network_is_read_back_from_its_dictionary(kind: type[Network]) -> None:
    network = network_from_dict({"network": kind.name, "batch": 7})

    assert network_from_dict(network.to_dict()) == network


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"network": "cifar11"}, "did you mean cifar10"),
        ({"network": "cifar10", "strid": 2}, "did you mean stride"),
        ({"network": "nothing_like_it"}, "expected one of alexnet, all_cnn_c, .*, wrn_16_8"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(data: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        network_from_dict(data)


@pytest.mark.parametrize("fields", [{"crop": 28}, {"stride": 0}, {"batch": "many"}])
def test_impossible_parameters_are_errors_with_the_numbers(fields: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=next(iter(fields))):
        Cifar10(**fields)  # type: ignore[arg-type]
