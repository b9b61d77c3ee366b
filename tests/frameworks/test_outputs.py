"""Where results go: memory of large ones is kept, and never shared by two that are alive."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from profkit.frameworks.adapter import Array
from profkit.frameworks.outputs import POOLED_FROM_BYTES, OutputPool, call_on_pooled, is_pooled
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.matmul import MatMul

LARGE = BiasRelu(batch=4, channels=16, height=64, width=64)


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_dropped_result_gives_its_memory_to_the_next() -> None:
    pool = OutputPool(LARGE)
    first = address(pool.empty())
    gc.collect()

    assert address(pool.empty()) == first


def test_results_that_are_alive_share_no_memory() -> None:
    pool = OutputPool(LARGE)
    held = [pool.empty() for _ in range(7)]  # more than the pool keeps
    for number, array in enumerate(held):
        array.fill(number)

    assert [array.max() for array in held] == [array.min() for array in held] == list(range(7))


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda array: array[1:2], id="slice"),
        pytest.param(lambda array: array.reshape(-1).T, id="reshaped"),
        pytest.param(memoryview, id="memoryview"),
        pytest.param(np.from_dlpack, id="dlpack"),
        pytest.param(lambda array: np.frombuffer(array, np.uint8), id="buffer"),
    ],
)
def test_what_is_left_of_a_result_keeps_its_memory(part: Callable[[Array], object]) -> None:
    pool = OutputPool(LARGE)
    array = pool.empty()
    first = address(array)
    rest = part(array)
    del array
    gc.collect()

    second = address(pool.empty())

    assert second != first
    del rest
    gc.collect()
    assert address(pool.empty()) == first


def test_pooled_arrays_have_shape_type_and_aligned_memory() -> None:
    array = OutputPool(LARGE).empty()

    assert (array.shape, array.dtype, address(array) % 64) == (LARGE.output_shape(), LARGE.numpy_dtype, 0)
    assert array.flags.c_contiguous and array.flags.writeable


def test_only_large_results_come_from_a_pool() -> None:
    small = MatMul(4, 4, 4)

    assert is_pooled(LARGE) and not is_pooled(small)
    assert np.prod(LARGE.output_shape()) * 4 >= POOLED_FROM_BYTES


def test_a_pooled_call_returns_its_own_result_each_time() -> None:
    filled = iter(range(100))
    call = call_on_pooled(lambda output: output.fill(next(filled)), LARGE)

    first, second, third = call(), call(), call()

    assert [array.flat[0] for array in (first, second, third)] == [0.0, 1.0, 2.0]
