"""Operators of layers other than products and windows: results against loops over single numbers, gradients against
differences of results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from profkit import ops
from profkit.errors import SpecError
from profkit.ops.layout import to_nchw
from profkit.ops.spec import Array

Inputs = Mapping[str, Array]


def function_of(name: str, x: float) -> float:
    return {
        "relu": lambda: max(x, 0.0),
        "tanh": lambda: math.tanh(x),
        "scaled_tanh": lambda: 1.7159 * math.tanh(2.0 * x / 3.0),
        "sigmoid": lambda: 1.0 / (1.0 + math.exp(-x)),
        "hard_sigmoid": lambda: min(1.0, max(0.0, 0.2 * x + 0.5)),
        "gelu": lambda: 0.5 * x * math.erfc(-x / math.sqrt(2.0)),
    }[name]()


def activation(spec: ops.Activation, inputs: Inputs) -> list[float]:
    return [function_of(spec.function, float(x)) for x in inputs["x"]]


def add(spec: ops.Add, inputs: Inputs) -> list[float]:
    return [float(a) + float(b) for a, b in zip(inputs["a"], inputs["b"])]


def dropout(spec: ops.Dropout, inputs: Inputs) -> list[float]:
    return [float(x) * float(mask) for x, mask in zip(inputs["x"], inputs["mask"])]


def batch_norm(spec: ops.BatchNorm, inputs: Inputs) -> Array:
    x = to_nchw(spec.layout, inputs["x"])
    y = np.empty(x.shape)
    for c in range(spec.channels):
        values = [float(value) for value in x[:, c].ravel()]
        mean, variance = statistics.fmean(values), statistics.pvariance(values)
        if spec.mode == "inference":
            mean, variance = float(inputs["mean"][c]), float(inputs["variance"][c])
        scale, shift = float(inputs["scale"][c]), float(inputs["shift"][c])
        normal = [(value - mean) / math.sqrt(variance + spec.epsilon) * scale + shift for value in values]
        y[:, c] = np.reshape(normal, x[:, c].shape)
    return y if spec.layout == "NCHW" else y.transpose(0, 2, 3, 1)


def layer_norm(spec: ops.LayerNorm, inputs: Inputs) -> list[list[float]]:
    rows = []
    for row in inputs["x"].astype(np.float64).tolist():
        deviation = math.sqrt(statistics.pvariance(row) + spec.epsilon)
        columns = zip(row, inputs["scale"].tolist(), inputs["shift"].tolist())
        rows.append([(x - statistics.fmean(row)) / deviation * scale + shift for x, scale, shift in columns])
    return rows


def embedding(spec: ops.Embedding, inputs: Inputs) -> list[Array]:
    return [inputs["table"][int(index)].astype(np.float64) for index in inputs["indices"]]


def lstm(spec: ops.Lstm, inputs: Inputs) -> Array:
    """`h` and `c` are the state before the first step, `z` is added to the gates' sums."""
    x, w, u, b = (inputs[name].astype(np.float64) for name in ("x", "w", "u", "b"))
    state, more = np.zeros((spec.batch, spec.cells)), np.zeros((spec.batch, spec.steps, 4 * spec.cells))
    result = np.zeros((spec.batch, spec.steps, spec.cells))
    for n in range(spec.batch):
        h, c = (list(inputs.get(name, state)[n]) for name in ("h", "c"))
        for t in range(spec.steps):
            z = [
                sum(x[n, t, i] * w[i, gate] for i in range(spec.inputs))
                + sum(h[j] * u[j, gate] for j in range(spec.cells))
                + b[gate]
                + inputs.get("z", more)[n, t, gate]
                for gate in range(4 * spec.cells)
            ]
            for j in range(spec.cells):
                i, f, o = (function_of(spec.recurrent_activation, z[gate * spec.cells + j]) for gate in (0, 1, 3))
                c[j] = f * c[j] + i * function_of(spec.activation, z[2 * spec.cells + j])
                h[j] = o * function_of(spec.activation, c[j])
            result[n, t] = h
    return result if spec.returns_sequence else result[:, -1]


def attention(spec: ops.Attention, inputs: Inputs) -> Array:
    q, k, v = (inputs[name].astype(np.float64) for name in ("q", "k", "v"))
    y = np.zeros(spec.output_shape())
    for n in range(spec.batch):
        for head in range(spec.heads):
            own = slice(head * spec.width, (head + 1) * spec.width)
            for i in range(spec.steps):
                seen = range(i + 1 if spec.causal else spec.steps)
                powers = [math.exp(float(q[n, i, own] @ k[n, j, own]) / math.sqrt(spec.width)) for j in seen]
                for j, power in zip(seen, powers):
                    y[n, i, own] += power / sum(powers) * v[n, j, own]
    return y


def optimiser_step(spec: ops.OptimiserStep, inputs: Inputs) -> Any:
    columns = []
    for w, slope, *states in zip(*(array.astype(np.float64).tolist() for array in inputs.values())):
        g = slope + spec.weight_decay * w
        if spec.optimiser == "adam":
            m = spec.beta1 * states[0] + (1 - spec.beta1) * g
            v = spec.beta2 * states[1] + (1 - spec.beta2) * g**2
            unbiased = m / (1 - spec.beta1**spec.step), v / (1 - spec.beta2**spec.step)
            columns.append([w - spec.learning_rate * unbiased[0] / (math.sqrt(unbiased[1]) + spec.epsilon), m, v])
        elif spec.optimiser == "rmsprop":
            s = spec.rho * states[0] + (1 - spec.rho) * g**2
            columns.append([w - spec.learning_rate * g / (math.sqrt(s) + spec.epsilon), s])
        elif not states:
            columns.append([w - spec.learning_rate * g])
        else:
            velocity = spec.momentum * states[0] + g
            along = g + spec.momentum * velocity if spec.nesterov else velocity
            columns.append([w - spec.learning_rate * along, velocity])
    return np.array(columns).T


BY_LOOPS: dict[str, Callable[[Any, Inputs], Any]] = {
    "activation": activation,
    "add": add,
    "dropout": dropout,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "embedding": embedding,
    "lstm": lstm,
    "attention": attention,
    "optimiser_step": optimiser_step,
}


@pytest.mark.parametrize("op", BY_LOOPS)
def test_results_follow_the_definition(op: str) -> None:
    specs = [spec for spec in ops.odd_specs(op) if getattr(spec, "direction", "forward") == "forward"]
    for spec in [spec for spec in specs if spec.flops() < 100_000]:
        inputs = spec.make_inputs(seed=3)

        reference = spec.reference(inputs)

        assert reference.dtype == np.float64 and reference.flags.c_contiguous
        assert reference.shape == spec.output_shape()
        np.testing.assert_allclose(reference, BY_LOOPS[op](spec, inputs), rtol=1e-10, atol=1e-12, err_msg=repr(spec))


def by_differences(loss: Callable[[NDArray[np.float64]], float], at: Array) -> NDArray[np.float64]:
    """The gradient of `loss`, an element at a time."""
    point, gradient, step = at.astype(np.float64), np.zeros(at.shape), 1e-6
    for place in np.ndindex(at.shape):
        changed = []
        for move in (step, -step):
            moved = point.copy()
            moved[place] += move
            changed.append(loss(moved))
        gradient[place] = (changed[0] - changed[1]) / (2 * step)
    return gradient


INPUT = {"input-gradient": "x"}
NORM = {**INPUT, "parameter-gradient": "scale shift"}
LSTM = {**INPUT, "weight-gradient": "w u b"}
GRADIENTS: tuple[tuple[ops.Spec, Mapping[str, str]], ...] = (
    *((ops.Activation(9, name, "float64"), INPUT) for name in ("relu", "tanh", "scaled_tanh")),
    *((ops.Activation(9, name, "float64"), INPUT) for name in ("sigmoid", "hard_sigmoid", "gelu")),
    (ops.BatchNorm(2, 3, 2, 3, dtype="float64", epsilon=0.01), NORM),
    (ops.BatchNorm(5, 2, 1, 1, layout="NHWC", dtype="float64"), NORM),
    (ops.LayerNorm(3, 5, 0.01, "float64"), NORM),
    (ops.LocalResponseNorm(1, 6, 2, 2, size=4, alpha=0.5, dtype="float64"), INPUT),
    (ops.LocalResponseNorm(1, 5, 1, 2, size=3, alpha=2.0, beta=0.5, layout="NHWC", dtype="float64"), INPUT),
    (ops.BiasRelu(2, 3, 2, 2, dtype="float64"), {**INPUT, "bias-gradient": "b"}),
    (ops.BiasRelu(2, 3, 2, 1, layout="NHWC", dtype="float64"), {**INPUT, "bias-gradient": "b"}),
    (ops.Embedding(7, 4, 3, "float64"), {"weight-gradient": "table"}),
    (ops.Lstm(2, 3, 2, 3, dtype="float64"), LSTM),
    (ops.Lstm(1, 3, 3, 2, "sigmoid", "hard_sigmoid", True, "float64"), LSTM),
    (ops.Lstm(2, 1, 1, 2, "tanh", "hard_sigmoid", True, "float64"), LSTM),
    (ops.Attention(2, 2, 3, 2, dtype="float64"), {"input-gradient": "q k v"}),
    (ops.Attention(1, 2, 4, 3, True, "float64"), {"input-gradient": "q k v"}),
)


def along(spec: ops.Spec, inputs: Inputs, dy: Array, name: str, at: NDArray[np.float64]) -> float:
    """The result in the direction dy, with another value of one input."""
    return float((spec.reference({**inputs, name: at}) * dy).sum())


@pytest.mark.parametrize(("spec", "directions"), GRADIENTS, ids=lambda value: repr(value)[:60])
def test_gradients_are_those_of_the_result(spec: ops.Spec, directions: Mapping[str, str]) -> None:
    inputs = spec.make_inputs(seed=5)
    y = spec.reference(inputs)
    dy = np.random.default_rng(6).standard_normal(y.shape)
    for direction, names in directions.items():
        of_gradient = spec.replaced(direction=direction)
        given = {**inputs, "y": y, "dy": dy}

        gradient = of_gradient.reference({name: given[name] for name in of_gradient.input_shapes()})

        expected = [by_differences(partial(along, spec, inputs, dy, name), inputs[name]) for name in names.split()]
        joined = np.concatenate([each.ravel() for each in expected])
        assert gradient.shape == of_gradient.output_shape()
        np.testing.assert_allclose(gradient, joined.reshape(gradient.shape), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("returns_sequence", [False, True])
@pytest.mark.parametrize(("direction", "names"), [("state-gradient", "h c"), ("gate-gradient", "z")])
def test_gradients_by_what_an_lstm_holds_are_those_of_the_result(
    direction: str, names: str, returns_sequence: bool
) -> None:
    spec = ops.Lstm(2, 3, 2, 2, returns_sequence=returns_sequence, dtype="float64")
    inputs = spec.make_inputs(seed=5)
    dy = np.random.default_rng(6).standard_normal(spec.output_shape())
    of_gradient = spec.replaced(direction=direction)

    gradient = of_gradient.reference({**inputs, "dy": dy})

    held = {"h": (2, 2), "c": (2, 2), "z": (2, 3, 8)}

    def moved(name: str, at: Array) -> float:
        return float((lstm(spec, {**inputs, name: at}) * dy).sum())

    expected = [by_differences(partial(moved, name), np.zeros(held[name])) for name in names.split()]
    assert gradient.shape == of_gradient.output_shape()
    np.testing.assert_allclose(gradient, np.reshape(expected, gradient.shape), rtol=1e-6, atol=1e-7)


def test_the_gradient_of_softmax_is_that_of_its_cross_entropy() -> None:
    spec = ops.Softmax(3, 5, "float64", "input-gradient")
    inputs = spec.make_inputs(seed=2)

    def cross_entropy(x: NDArray[np.float64]) -> float:
        shares = spec.replaced(direction="forward").reference({"x": x})
        return float(-np.log((shares * inputs["labels"]).sum(axis=1)).sum())

    assert (inputs["labels"].sum(axis=1) == 1.0).all()
    np.testing.assert_allclose(spec.reference(inputs), by_differences(cross_entropy, inputs["x"]), atol=1e-8)


def test_inputs_are_such_as_the_operator_may_meet() -> None:
    mask = ops.Dropout(10_000, 0.25).make_inputs()["mask"]
    indices = ops.Embedding(1000, 7, 3).make_inputs()["indices"]
    variance = ops.BatchNorm(2, 64, 1, 1, mode="inference").make_inputs()["variance"]

    assert sorted(set(mask.tolist())) == [0.0, np.float32(4 / 3)]
    assert np.mean(mask == 0) == pytest.approx(0.25, abs=0.02)
    assert indices.dtype == np.int64 and set(indices.tolist()) == set(range(7))
    assert variance.min() > 0
    assert ops.Dropout(99).make_inputs(3)["mask"].tobytes() == ops.Dropout(99).make_inputs(3)["mask"].tobytes()


@pytest.mark.parametrize(
    ("op", "fields", "words"),
    [
        (ops.Dropout, {"rate": 1.0}, "rate 1 must be at least 0 and below 1"),
        (ops.BatchNorm, {"epsilon": 0.0}, "epsilon 0 must be above 0"),
        (ops.BatchNorm, {"mode": "inference", "direction": "input-gradient"}, "input-gradient is of training"),
        (ops.LayerNorm, {"epsilon": -1.0}, "epsilon -1 must be above 0"),
        (ops.OptimiserStep, {"momentum": 1.0}, "momentum 1 must be at least 0 and below 1"),
        (ops.OptimiserStep, {"nesterov": True}, "nesterov needs sgd with momentum, not adam"),
        (ops.OptimiserStep, {"optimiser": "adagrad"}, "expected one of sgd, adam, rmsprop"),
        (ops.Activation, {"function": "swish"}, "expected one of relu, tanh"),
    ],
)
def test_fields_that_cannot_be_are_refused_with_their_numbers(op: type[ops.Spec], fields: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        op(**fields)
