"""The first training step against float64: one wrong gradient is found whatever rounding does; ties are no errors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from profkit.data import synthetic_data
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement.first_step import LOSS, ROUNDINGS, VANISHED, ExpectedStep, FirstStep, StepCheck, check_step
from profkit.ops.networks import Mlp, Network, Training
from profkit.ops.networks.reference import Optimiser, dropout_masks
from profkit.ops.spec import Array
from tests.ops.networks.small import small_networks

FAULTS = {"turned": -1.0, "doubled": 2.0, "missing": 0.0}


def small(name: str) -> Network:
    return next(network for network in small_networks() if network.name == name)


@cache
def expected_of(name: str) -> ExpectedStep:
    network = small(name)
    batch = synthetic_data(network, train=32, test=8).batch(network.input_shape()[0])
    return ExpectedStep(network, network.initial_weights(), batch, dropout_masks(network))


def step_of(expected: ExpectedStep, training: Training, gradients: dict[str, Array]) -> FirstStep:
    """What a framework gives that has these gradients."""
    new = Optimiser(expected.network, training).step(expected.weights, gradients)
    return FirstStep(np.asarray(expected.loss), {**new, **expected.states}, gradients)


@cache
def native_step(name: str) -> FirstStep:
    """In float32, of our own kernels."""
    expected, builder = expected_of(name), load_builder("native")
    conditions = NetworkConditions(1, "", True, Training())
    builder.start(conditions)
    built = builder.build(expected.network, expected.weights, conditions)
    batch = built.put(*expected._batch, expected._masks)
    gradients = built.gradients(batch)
    return FirstStep(np.asarray(built.to_numpy(built.train(batch))), built.weights(), gradients)


def visible(expected: ExpectedStep) -> set[str]:
    """Parameters whose gradient is not 0."""
    return {name for name in expected.gradients if not expected.vanishes(name)}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["resnet50", "wrn_16_8", "googlenet"])
def test_a_wrong_gradient_of_any_parameter_is_found_in_spite_of_rounding(name: str, fault: str) -> None:
    """Every array has its own limit, so all faults at once say of each whether it would be found alone."""
    expected, found = expected_of(name), native_step(name)
    right = check_step(expected, Training(), found)
    wrong = {each: (FAULTS[fault] * values).astype(np.float32) for each, values in found.gradients.items()}

    check = check_step(expected, Training(), FirstStep(found.loss, found.weights, wrong))

    assert (right.beyond, right.unchecked) == ((), ())
    assert set(check.beyond) == visible(expected)


@pytest.mark.parametrize("name", ["resnet50", "wrn_16_8"])
def test_a_wrong_gradient_is_found_by_the_new_weights_where_it_cannot_be_read(name: str) -> None:
    expected = expected_of(name)
    training = Training(learning_rate=0.1, momentum=0.9)
    for factor in FAULTS.values():
        gradients = {each: factor * values for each, values in expected.gradients.items()}
        found = step_of(expected, training, gradients)

        check = check_step(expected, training, FirstStep(found.loss, found.weights, {}))

        assert set(check.beyond) | set(check.unchecked) == visible(expected)
        assert len(check.unchecked) < len(visible(expected)) / 10


def test_new_weights_that_no_gradient_would_change_do_not_count_as_checked() -> None:
    expected = expected_of("wrn_16_8")
    training = Training(learning_rate=1e-12)
    found = step_of(expected, training, dict(expected.gradients))

    assert check_step(expected, training, found).unchecked == ()
    check = check_step(expected, training, FirstStep(found.loss, found.weights, {}))
    assert set(check.unchecked) == {name for name in visible(expected) if expected.weights[name].any()}
    assert check.worst.what.removeprefix("the new ") not in check.unchecked


@pytest.mark.parametrize("wrong", [1e-3, np.nan])
def test_new_weights_that_no_gradient_explains_are_wrong_even_where_a_gradient_would_not_be_seen(wrong: float) -> None:
    expected = expected_of("wrn_16_8")
    training = Training(learning_rate=1e-12)
    right = step_of(expected, training, dict(expected.gradients))
    name = check_step(expected, training, FirstStep(right.loss, right.weights, {})).unchecked[0]
    weights = {**right.weights, name: right.weights[name] + wrong * np.abs(right.weights[name]).max()}

    check = check_step(expected, training, FirstStep(right.loss, weights, {}))

    assert check.beyond == (name,) and name not in check.unchecked
    assert check.worst.what == f"the new {name}" and check.worst.share > 1


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_a_wrong_first_step_is_found_and_named(optimizer: str) -> None:
    expected = expected_of("basic_svhn")
    training = Training(optimizer=optimizer, learning_rate=0.01)
    right = step_of(expected, training, dict(expected.gradients))

    def check(weights: dict[str, Array], gradients: dict[str, Array]) -> StepCheck:
        step = FirstStep(right.loss, {**right.weights, **weights}, {**right.gradients, **gradients})
        return check_step(expected, training, step)

    assert check({}, {}).beyond == ()
    w, norm = "conv1_1.w", "conv1_1_norm.variance"
    wrong = check({}, {w: 1.1 * right.gradients[w]})
    assert (wrong.beyond, wrong.worst.what) == ((w,), "conv1_1.w's gradient")
    assert check({w: expected.weights[w]}, {}).worst.what == "the new conv1_1.w"
    assert check({norm: 1.01 * right.weights[norm]}, {}).worst.what == "the new conv1_1_norm.variance"
    assert check({w: np.full_like(right.weights[w], np.nan)}, {}).beyond == (w,)
    late = FirstStep(1.01 * right.loss, right.weights, right.gradients)
    assert check_step(expected, training, late).beyond == (LOSS,)
    # The bias before a batch normalisation has no gradient: what is left of rounding is no error, more of it is.
    size = expected.sizes["conv1_1.b"]
    assert not check({}, {"conv1_1.b": right.gradients["conv1_1.b"] + 1e-9}).beyond
    assert check({}, {"conv1_1.b": right.gradients["conv1_1.b"] + 0.3 * size}).beyond == ("conv1_1.b",)
    assert np.abs(expected.gradients["conv1_1.b"]).max() < VANISHED * size


def at_a_tie() -> ExpectedStep:
    """A neuron whose sum is 0 is on one side of its ReLU or the other, and everything behind it with it."""
    network = Mlp(batch=4, hidden=1, neurons=3)
    images, labels = synthetic_data(network, train=4, test=4).batch(network.input_shape()[0])
    weights = {name: values.copy() for name, values in network.initial_weights().items()}
    first = network.layers[0].name
    weights[f"{first}.w"][:, 0] = 0.0
    weights[f"{first}.w"][:2, 0] = images[0, 1], -images[0, 0]  # 0 for the first row
    weights[f"{first}.b"][0] = 0.0
    return ExpectedStep(network, weights, (images, labels), {})


def test_the_other_side_of_a_tie_is_no_error_and_too_wide_a_limit_is_no_check() -> None:
    expected, training = at_a_tie(), Training()
    first = expected.network.layers[0].name
    weights = {each: values.copy() for each, values in expected.weights.items()}
    weights[f"{first}.b"][0] = 1e-7
    other = ExpectedStep(expected.network, weights, expected._batch, {})
    step = step_of(expected, training, dict(other.gradients))

    check = check_step(expected, training, step)

    assert check.beyond == ()
    assert set(check.unchecked) | set(check.widened) == {f"{first}.w", f"{first}.b"}
    doubled = {name: 2 * values for name, values in other.gradients.items()}
    wrong = check_step(expected, training, step_of(expected, training, doubled))
    assert set(wrong.beyond) | set(check.unchecked) == set(expected.gradients)


def test_a_framework_that_is_wrong_does_not_use_up_the_roundings_of_the_next() -> None:
    expected, training = at_a_tie(), Training()
    first = expected.network.layers[0].name
    weights = {each: values.copy() for each, values in expected.weights.items()}
    weights[f"{first}.b"][0] = 1e-7
    gradients = ExpectedStep(expected.network, weights, expected._batch, {}).gradients
    step = step_of(expected, training, dict(gradients))
    doubled = step_of(expected, training, {name: 2 * values for name, values in gradients.items()})
    alone = check_step(at_a_tie(), training, step)

    assert check_step(expected, training, doubled).beyond

    assert check_step(expected, training, step) == alone
    assert alone.beyond == ()


def test_nothing_moves_without_a_tie() -> None:
    network = Mlp(batch=4, hidden=1, neurons=3)
    batch = synthetic_data(network, train=4, test=4).batch(network.input_shape()[0])
    expected = ExpectedStep(network, network.initial_weights(), batch, {})

    moved = expected.moved(ROUNDINGS)

    assert all(error <= expected.limits[name] * expected.sizes[name] for name, error in moved.items())
