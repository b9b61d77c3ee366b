"""The float64 references against loops that follow the definition. Against frameworks, all of whom are compared with
them on the same odd shapes: tests/frameworks/test_adapters.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from profkit.ops import SPECS, BiasRelu, Conv2d, LocalResponseNorm, MatMul, Pool2d, Softmax, Spec, odd_specs
from tests.ops.test_layer_operators import BY_LOOPS as LAYER_LOOPS

Array = NDArray[Any]
Inputs = dict[str, Array]


def nchw(spec: Any, array: Array) -> Array:
    return array.transpose(0, 3, 1, 2) if spec.layout == "NHWC" and array.ndim == 4 else array


def own_layout(spec: Any, array: Array) -> Array:
    return array.transpose(0, 2, 3, 1) if spec.layout == "NHWC" and array.ndim == 4 else array


def products(spec: Conv2d) -> Any:
    """All (n, k, i, j, c, r, s, h, w) whose filter tap meets the image: c inside the group, h and w in the image."""
    top, _, left, _ = spec.window.pads
    channels, filters = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    rows, columns = spec.window.out_size
    ranges = (spec.batch, spec.out_channels, rows, columns, channels, *spec.kernel_size)
    for n, k, i, j, c, r, s in itertools.product(*map(range, ranges)):
        h = i * spec.stride[0] + r * spec.dilation[0] - top
        w = j * spec.stride[1] + s * spec.dilation[1] - left
        if 0 <= h < spec.height and 0 <= w < spec.width:
            yield (n, k, i, j), (k, c, r, s), (n, k // filters * channels + c, h, w)


def conv2d_by_loops(spec: Conv2d, inputs: Inputs) -> Array:
    if spec.direction == "forward":
        y = np.zeros((spec.batch, spec.out_channels, *spec.window.out_size))
        x = nchw(spec, inputs["x"])
        for at_y, at_w, at_x in products(spec):
            y[at_y] += float(x[at_x]) * float(inputs["w"][at_w])
        if spec.bias:
            for k in range(spec.out_channels):
                y[:, k] += float(inputs["b"][k])
        return own_layout(spec, np.where(y > 0, y, 0.0) if spec.activation == "relu" else y)
    dy = nchw(spec, inputs["dy"])
    if spec.direction == "input-gradient":
        dx = np.zeros((spec.batch, spec.in_channels, spec.height, spec.width))
        for at_y, at_w, at_x in products(spec):
            dx[at_x] += float(dy[at_y]) * float(inputs["w"][at_w])
        return own_layout(spec, dx)
    dw = np.zeros(spec.w_shape())
    x = nchw(spec, inputs["x"])
    for at_y, at_w, at_x in products(spec):
        dw[at_w] += float(dy[at_y]) * float(x[at_x])
    return dw


def matmul_by_loops(spec: MatMul, inputs: Inputs) -> Array:
    a = inputs["a"].reshape(spec.batch, *inputs["a"].shape[-2:])
    b = inputs["b"].reshape(spec.batch, *inputs["b"].shape[-2:])
    c = np.zeros((spec.batch, spec.m, spec.n))
    for item, i, j in itertools.product(range(spec.batch), range(spec.m), range(spec.n)):
        left = a[item, :, i] if spec.transpose_a else a[item, i]
        right = b[item, j] if spec.transpose_b else b[item, :, j]
        c[item, i, j] = sum(float(p) * float(q) for p, q in zip(left, right))
        if spec.bias:
            c[item, i, j] += float(inputs["bias"][j])
        if spec.activation == "relu":
            c[item, i, j] = max(c[item, i, j], 0.0)
    return c.reshape(spec.output_shape())


def windows(spec: Pool2d) -> Any:
    """For all (n, c, i, j), the places of the image that its window sees, row by row."""
    top, _, left, _ = spec.window.pads
    for n, c, i, j in itertools.product(*map(range, (spec.batch, spec.channels, *spec.window.out_size))):
        h0, w0 = i * spec.stride[0] - top, j * spec.stride[1] - left
        yield (
            (n, c, i, j),
            [
                (n, c, h, w)
                for h in range(max(h0, 0), min(h0 + spec.kernel_size[0], spec.height))
                for w in range(max(w0, 0), min(w0 + spec.kernel_size[1], spec.width))
            ],
        )


def pool2d_by_loops(spec: Pool2d, inputs: Inputs) -> Array:
    if spec.direction == "input-gradient":
        return pool2d_gradient_by_loops(spec, inputs)
    x = nchw(spec, inputs["x"])
    y = np.zeros((spec.batch, spec.channels, *spec.window.out_size))
    for at, places in windows(spec):
        seen = [float(x[place]) for place in places]
        y[at] = max(seen) if spec.mode == "max" else sum(seen) / len(seen)
    return own_layout(spec, y)


def pool2d_gradient_by_loops(spec: Pool2d, inputs: Inputs) -> Array:
    dy = nchw(spec, inputs["dy"])
    dx = np.zeros((spec.batch, spec.channels, spec.height, spec.width))
    for at, places in windows(spec):
        if spec.mode == "max":
            x = nchw(spec, inputs["x"])
            dx[max(places, key=lambda place: float(x[place]))] += float(dy[at])  # the first of equals
        else:
            for place in places:
                dx[place] += float(dy[at]) / len(places)
    return own_layout(spec, dx)


def lrn_by_loops(spec: LocalResponseNorm, inputs: Inputs) -> Array:
    x = nchw(spec, inputs["x"]).astype(np.float64)
    y = np.zeros_like(x)
    for c in range(spec.channels):
        energy = sum(
            x[:, other] ** 2
            for other in range(c - spec.size // 2, c - spec.size // 2 + spec.size)
            if 0 <= other < spec.channels
        )
        y[:, c] = x[:, c] / (spec.k + spec.alpha * energy / spec.size) ** spec.beta
    return own_layout(spec, y)


def bias_relu_by_loops(spec: BiasRelu, inputs: Inputs) -> Array:
    y = np.empty(spec.output_shape())
    for index in np.ndindex(y.shape):
        channel = index[1] if spec.layout == "NCHW" else index[3]
        y[index] = max(0.0, float(inputs["x"][index]) + float(inputs["b"][channel]))
    return y


def softmax_by_loops(spec: Softmax, inputs: Inputs) -> Array:
    powers = np.exp(inputs["x"].astype(np.longdouble))
    return np.array([row / row.sum() for row in powers], dtype=np.float64)


BY_LOOPS: dict[str, Callable[[Any, Inputs], Array]] = {
    "conv2d": conv2d_by_loops,
    "matmul": matmul_by_loops,
    "pool2d": pool2d_by_loops,
    "lrn": lrn_by_loops,
    "bias_relu": bias_relu_by_loops,
    "softmax": softmax_by_loops,
}


# Their gradients are compared with differences in test_layer_operators.py.
FORWARD_ONLY = ("lrn", "bias_relu", "softmax")


def has_loops(spec: Any) -> bool:
    return spec.flops() < 100_000 and (spec.op not in FORWARD_ONLY or spec.direction == "forward")


@pytest.mark.parametrize("spec", [s for op in BY_LOOPS for s in odd_specs(op) if has_loops(s)], ids=repr)
def test_the_reference_follows_the_definition(spec: Spec) -> None:
    inputs = spec.make_inputs(seed=3)

    reference = spec.reference(inputs)

    assert reference.dtype == np.float64
    assert reference.flags.c_contiguous
    np.testing.assert_allclose(reference, BY_LOOPS[spec.op](spec, inputs), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_gradient_of_equal_maxima_goes_where_torch_sends_it(layout: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    spec = Pool2d(2, 3, 9, 8, 3, 2, 1, "max", layout, direction="input-gradient")
    inputs = spec.make_inputs(seed=7)
    inputs["x"] = np.round(inputs["x"])  # five or so values: most windows have several maxima
    x = torch.tensor(np.ascontiguousarray(nchw(spec, inputs["x"])).astype(np.float64)).requires_grad_()
    dy = torch.tensor(np.ascontiguousarray(nchw(spec, inputs["dy"])).astype(np.float64))
    torch.nn.functional.max_pool2d(x, 3, 2, 1).backward(dy)

    reference = spec.reference(inputs)

    np.testing.assert_allclose(reference, own_layout(spec, x.grad.numpy()), rtol=1e-12)


def test_every_operator_is_compared_with_loops() -> None:
    assert set(SPECS) == {*BY_LOOPS, *LAYER_LOOPS}


def test_softmax_of_large_values_does_not_overflow() -> None:
    reference = Softmax(1, 3).reference({"x": np.array([[1e4, 1e4, -1e4]], dtype=np.float32)})

    np.testing.assert_allclose(reference, [[0.5, 0.5, 0.0]])
