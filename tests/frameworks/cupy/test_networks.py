"""CuPy's networks where no GPU is: their array code with NumPy in CuPy's place, and why they cannot run."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from profkit.frameworks.cupy.networks import BUILDER
from profkit.frameworks.framework import WIDE
from profkit.frameworks.networks.array_operators import array_call
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops import SPECS, Pool2d, Spec, odd_specs
from profkit.ops.networks import Cifar10, Mlp, Network
from profkit.ops.spec import max_error, tolerance
from tests.frameworks.networks.network_checks import Trial, with_batch
from tests.support.fake_cupy import FakeCupy


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


def built(network: Network, conditions: NetworkConditions) -> Trial:
    """Without looking for a device."""
    return with_batch(network, BUILDER.build(network, network.initial_weights(), conditions))


def is_written(spec: Spec) -> bool:
    """Networks have float32 images in NCHW. What training keeps from its forward pass is tested with whole networks."""
    words = spec.words()
    if spec.dtype_word not in WIDE and not (spec.op in ("matmul", "softmax") and spec.dtype_word == "float16"):
        return False
    if spec.op == "batch_norm" and words["mode"] == "training":
        return False
    if words.get("function") == "gelu" and spec.dtype_word == "float64":  # NumPy has no erf: one for float32 is written
        return False
    return words.get("layout", "NCHW") == "NCHW" and array_call(np, spec) is not None


KERNELS = [spec for op in SPECS for spec in odd_specs(op) if is_written(spec)]


@pytest.mark.parametrize("op", dict.fromkeys(spec.op for spec in KERNELS))
def test_array_expressions_match_the_reference(op: str) -> None:
    for spec in (spec for spec in KERNELS if spec.op == op):
        inputs = spec.make_inputs()

        result = array_call(np, spec)(*inputs.values())

        assert (result.shape, result.dtype) == (spec.output_shape(), spec.numpy_dtype), spec
        limit = tolerance(spec.numpy_dtype, spec.reduction_length())
        assert max_error(result, spec.reference(inputs)) <= limit, spec


def test_the_gradient_of_pooling_goes_to_the_first_largest_of_a_window() -> None:
    for spec in KERNELS:
        if not isinstance(spec, Pool2d) or spec.mode != "max" or spec.direction == "forward":
            continue
        # Few different values: most windows have several largest.
        x = np.random.default_rng(1).integers(0, 3, spec.x_shape()).astype(spec.numpy_dtype)
        dy = np.random.default_rng(2).standard_normal(spec.y_shape()).astype(spec.numpy_dtype)
        call = array_call(np, spec)

        assert call is not None
        result = call(x, dy)

        expected = spec.reference({"x": x, "dy": dy})
        limit = tolerance(spec.numpy_dtype, spec.kernel_size[0] * spec.kernel_size[1])
        assert max_error(result, expected) <= limit, spec


def test_a_step_ends_when_the_device_has_finished(cupy: FakeCupy) -> None:
    trial = built(Mlp(batch=2, hidden=1, neurons=4), NetworkConditions(is_training=True))

    trial.built.infer(trial.batch)
    trial.built.train(trial.batch)

    assert cupy.called == ["wait", "wait"]


def test_without_a_device_the_run_says_why() -> None:
    if BUILDER.is_available().available:
        pytest.skip("there is a CUDA driver here")

    capture = run_network(NetworkRequest(Cifar10(batch=2), "cupy"))

    assert capture.status == "unavailable"
    assert any(word in capture.reason for word in ("not installed", "driver"))
