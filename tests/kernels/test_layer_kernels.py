"""Kernels of layers' operators where other tests do not come: results past the caches, indices outside a table, values
far from 0."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from profkit import _core
from profkit.errors import KernelError
from profkit.ops import Activation, Add, BatchNorm, BiasRelu, Embedding, LayerNorm, OptimiserStep, Spec
from profkit.ops.activation import FUNCTIONS
from profkit.ops.spec import Array, max_error, tolerance
from tests.kernels.kernel_calls import keys_of, run_kernel

CACHE = _core.cpu_features()["l3_bytes"]
MOST_CACHE = 128 << 20
"""Arrays above larger caches take too long here."""


def larger_than_the_cache() -> list[Spec]:
    """Results that are streamed: odd lengths, so that they begin and end inside vectors, several results at once."""
    elements = CACHE // 8 + 4099
    rows, channels = elements // 999, 37
    return [
        Add(elements),
        OptimiserStep(elements, "sgd", weight_decay=0.5),
        OptimiserStep(elements, "adam"),
        Activation(elements, "tanh", direction="input-gradient"),
        BiasRelu(1, channels, elements // channels // 63, 63, direction="input-gradient"),
        BatchNorm(2, channels, elements // channels // 63, 63),
        BatchNorm(2, channels, elements // channels // 63, 63, layout="NHWC", direction="input-gradient"),
        LayerNorm(rows, 999, direction="input-gradient"),
        LayerNorm(rows, 999, dtype="float64"),
        Embedding(rows * 2, 301, 999),
    ]


SLOW = [pytest.param(number, marks=pytest.mark.full) for number in range(2, len(larger_than_the_cache()))]


@pytest.mark.skipif(CACHE > MOST_CACHE, reason="the last-level cache is too large for this test")
@pytest.mark.parametrize("number", [0, 1, *SLOW])
def test_results_that_no_cache_holds_are_right(number: int) -> None:
    spec = larger_than_the_cache()[number]

    assert spec.min_bytes() > CACHE
    for key in keys_of(spec.op):
        for threads in (1, 3):
            error = max_error(run_kernel(key, spec, threads), spec.reference(spec.make_inputs()))
            assert error <= tolerance(spec.numpy_dtype, spec.reduction_length()), (key, threads)


def run_on(key: str, spec: Spec, inputs: Mapping[str, Array], threads: int = 1) -> Array:
    """A kernel's result on given arrays."""
    result = np.empty(spec.output_shape(), spec.numpy_dtype)
    _core.bind(key, spec.params(), list(inputs.values()), result, None, threads)()
    return result


@pytest.mark.parametrize("direction", ["forward", "weight-gradient"])
@pytest.mark.parametrize("index", [-1, 5, 2**40])
def test_an_index_outside_the_table_is_refused_with_its_number(direction: str, index: int) -> None:
    spec = Embedding(7, 5, 3, direction=direction)
    inputs = spec.make_inputs()
    inputs["indices"][4] = index

    for key in _core.kernels("embedding"):
        call = _core.bind(key, spec.params(), list(inputs.values()), np.empty(spec.output_shape(), "f"), None, 2)
        with pytest.raises(KernelError, match=rf"an index is {index}: it must be from 0 to 4"):
            call()


def test_indices_of_another_type_are_refused() -> None:
    spec = Embedding(7, 5, 3)
    inputs = spec.make_inputs()
    inputs["indices"] = inputs["indices"].astype(np.int32)

    with pytest.raises(KernelError, match="input indices: expected int64, got int32"):
        _core.bind("embedding/native/cpu/reference", spec.params(), list(inputs.values()), None, None, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("direction", ["forward", "input-gradient"])
def test_functions_are_right_element_by_element_from_tiny_to_huge_values(dtype: str, direction: str) -> None:
    """The tolerance of a whole array hides small results beside large ones: here each is compared with itself."""
    magnitudes = np.concatenate([np.logspace(-30, 1, 200), [20.0, 50.0, 87.0, 88.0, 104.0, 700.0, 1e6, 1e30]])
    x = np.concatenate([-magnitudes, [0.0], magnitudes]).astype(dtype)
    eps = float(np.finfo(dtype).eps)
    for function in FUNCTIONS:
        spec = Activation(x.size, function, dtype, direction)
        arrays = {"x": x, "dy": np.ones_like(x)}
        inputs = {name: arrays[name] for name in spec.input_shapes()}
        expected = spec.reference(inputs)
        # A slope is a difference of numbers near 1, and gelu that of its argument and nearly the same.
        scale = np.abs(expected) if (direction, function) == ("forward", "tanh") else np.maximum(np.abs(expected), 1e-3)
        scale = np.maximum(scale, np.abs(x)) if function == "gelu" else scale
        limit = 16 * eps if direction == "forward" else 1e3 * 8 * eps
        for key in keys_of("activation"):
            if _core.supports(key, spec.params()):
                assert (function, dtype) == ("gelu", "float64")
                continue
            result = np.empty_like(x)
            _core.bind(key, spec.params(), list(inputs.values()), result, None, 1)()
            worst = float(np.max(np.abs(result - expected) / np.maximum(scale, math.ulp(0.0))))
            assert worst <= limit, (key, function, worst)


@pytest.mark.parametrize("spec", [BatchNorm(5, 3, 17, 9), BatchNorm(5, 3, 17, 9, layout="NHWC"), LayerNorm(5, 300)])
def test_a_large_mean_costs_a_normalisation_no_digits(spec: Spec) -> None:
    inputs = spec.make_inputs()
    inputs["x"] = (inputs["x"] + np.float32(1000.0)).astype(np.float32)
    result = np.empty(spec.output_shape(), np.float32)

    _core.bind(f"{spec.op}/native/cpu/vectorized", spec.params(), list(inputs.values()), result, None, 3)()

    # A mean of 1000 that is rounded to float32 would be wrong by up to 3e-5.
    assert max_error(result, spec.reference(inputs)) < 3e-6


@pytest.mark.parametrize("direction", ["forward", "input-gradient", "parameter-gradient"])
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_a_row_whose_beginning_lies_far_from_the_rest_loses_no_digits(rows: int, direction: str) -> None:
    """Sums are made around a number from the beginning of a row: 1 of 2000 values there is 1e4 deviations away."""
    spec = LayerNorm(rows, 2000, direction=direction)
    inputs = spec.make_inputs()
    inputs["x"][rows // 2, :16] += np.float32(1e4)

    result = run_on("layer_norm/native/cpu/vectorized", spec, inputs)

    rest = spec.reference(inputs)
    error = np.abs(result - rest)
    assert np.max(error / np.abs(rest).max(axis=-1, keepdims=True)) < 3e-6


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("direction", ["forward", "input-gradient", "parameter-gradient"])
@pytest.mark.parametrize("image", [(70, 3, 7, 7), (9, 130, 8, 8), (33, 67, 1, 3), (2, 5, 33, 32), (1, 66, 5, 5)])
def test_planes_of_a_few_vectors_are_joined_over_images_channels_and_threads(
    image: tuple[int, int, int, int], direction: str, layout: str
) -> None:
    spec = BatchNorm(*image, layout=layout, direction=direction)
    inputs = spec.make_inputs()
    axis = 1 if layout == "NCHW" else 3
    # Every channel around a number of its own.
    offsets = np.linspace(-30, 30, spec.channels, dtype=np.float32)
    inputs["x"] += offsets.reshape([-1 if i == axis else 1 for i in range(4)])
    expected = spec.reference(inputs)

    for threads in (1, 2, 5):
        result = run_on("batch_norm/native/cpu/vectorized", spec, inputs, threads)
        assert max_error(result, expected) < 1e-5, threads


@pytest.mark.parametrize("direction", ["forward", "parameter-gradient"])
def test_many_rows_of_positive_numbers_are_summed_up_without_loss(direction: str) -> None:
    """Behind a ReLU no number is below 0: added one by one, sums of 401,408 of them lose a thousandth."""
    spec = BatchNorm(8, 8, 224, 224, layout="NHWC", direction=direction)
    inputs = spec.make_inputs()
    inputs["x"] = np.maximum(inputs["x"], np.float32(0.0))

    result = run_on("batch_norm/native/cpu/vectorized", spec, inputs)

    assert max_error(result, spec.reference(inputs)) < 1e-5


@pytest.mark.parametrize("direction", ["forward", "parameter-gradient"])
def test_a_column_whose_beginning_lies_far_from_the_rest_loses_no_digits(direction: str) -> None:
    spec = BatchNorm(8, 9, 64, 64, layout="NHWC", direction=direction)
    inputs = spec.make_inputs()
    inputs["x"][0, 0, :32, 4] += np.float32(1e3)

    result = run_on("batch_norm/native/cpu/vectorized", spec, inputs)

    # In a channel of its own: elsewhere numbers are larger.
    rest, found = (np.moveaxis(array, -1, 0)[4] for array in (spec.reference(inputs), result))
    assert max_error(found, rest) < 1e-5
