"""Thread counts of native calls: little work gets fewer threads, much work all of them, always the same."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import max_error, tolerance


@pytest.mark.parametrize("threads", [1, 2, 16, 128])
def test_a_tiny_product_takes_one_thread(threads: int) -> None:
    assert worthwhile_threads(MatMul(8, 8, 8), threads) == 1


@pytest.mark.parametrize("threads", [1, 2, 16, 128])
def test_a_large_convolution_takes_all_threads(threads: int) -> None:
    assert worthwhile_threads(Conv2d(batch=128), threads) == threads


def test_more_work_never_takes_fewer_threads() -> None:
    counts = [worthwhile_threads(MatMul(size, size, size), 64) for size in range(8, 520, 8)]

    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1, 64)


@pytest.mark.parametrize("size", [16, 72, 130])
def test_results_are_right_whatever_the_count(size: int) -> None:
    adapter, spec = load_adapter("native"), MatMul(size, size + 3, size + 5)
    inputs = spec.make_inputs()
    implementation = adapter.implementations("matmul")[0]

    prepared = adapter.prepare(implementation, spec, inputs, Conditions(threads=5))

    result = np.asarray(prepared.to_numpy(prepared.call()))
    assert max_error(result, spec.reference(inputs)) <= tolerance(spec.numpy_dtype, spec.reduction_length())
