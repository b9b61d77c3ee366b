"""CuPy's networks where no GPU is: their array code with NumPy in CuPy's place, and why they cannot run."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from profkit.frameworks.cupy.networks import BUILDER, CupyKernels
from profkit.frameworks.networks import array_operators
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops import LocalResponseNorm, Pool2d, Spec, odd_specs
from profkit.ops.networks import Cifar10, Layer, Mlp, Network, Training
from profkit.ops.networks.reference import lrn_gradient
from profkit.ops.spec import max_error, tolerance
from tests.frameworks.networks.network_checks import NETWORKS, WITH_MOMENTUM, Trial, name_of, with_batch
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
    """Networks have float32 images in NCHW, no groups, and maximum pooling, whose gradient has a test of its own."""
    words = spec.words()
    if spec.dtype_word not in ("float32", "float64") or (spec.op == "pool2d" and words["direction"] != "forward"):
        return False
    return words.get("layout", "NCHW") == "NCHW" and words.get("groups", "1") == "1" and words.get("mode") != "average"


KERNELS = [spec for op in ("conv2d", "pool2d", "lrn") for spec in odd_specs(op) if is_written(spec)]
TRAINED = [*NETWORKS[:-1], pytest.param(NETWORKS[-1], marks=pytest.mark.full)]
"""The last one is large."""


def describe(spec: Spec) -> str:
    return f"{spec.op}-{'-'.join(spec.words().values())}"


@pytest.mark.parametrize("spec", KERNELS, ids=describe)
def test_kernels_match_the_reference_when_numpy_stands_in(spec: Spec) -> None:
    inputs = spec.make_inputs()

    result = CupyKernels(np).kernel(spec).run(*inputs.values())

    assert (result.shape, result.dtype) == (spec.output_shape(), spec.numpy_dtype)
    assert max_error(result, spec.reference(inputs)) <= tolerance(spec.numpy_dtype, spec.reduction_length())


@pytest.mark.parametrize("spec", [spec for spec in KERNELS if isinstance(spec, Pool2d)], ids=describe)
def test_the_gradient_of_pooling_goes_to_the_first_largest_of_a_window(spec: Pool2d) -> None:
    # Few different values: most windows have several largest.
    x = np.random.default_rng(1).integers(0, 3, spec.input_shapes()["x"]).astype(spec.numpy_dtype)
    y = spec.reference({"x": x}).astype(spec.numpy_dtype)
    dy = np.random.default_rng(2).standard_normal(y.shape).astype(spec.numpy_dtype)

    result = array_operators.max_pool_gradient(np, spec)(x, y, dy)

    expected = spec.replaced(direction="input-gradient").reference({"x": x, "dy": dy})
    assert max_error(result, expected) <= tolerance(spec.numpy_dtype, spec.kernel_size[0] * spec.kernel_size[1])


@pytest.mark.parametrize("spec", [spec for spec in KERNELS if isinstance(spec, LocalResponseNorm)], ids=describe)
def test_the_gradient_of_normalisation_matches_the_reference(spec: LocalResponseNorm) -> None:
    x, dy = (np.random.default_rng(seed).standard_normal(spec.output_shape()) for seed in (1, 2))

    result = array_operators.lrn_gradient(np, spec)(x.astype(spec.numpy_dtype), dy.astype(spec.numpy_dtype))

    assert max_error(result, lrn_gradient(spec, x, dy)) <= tolerance(spec.numpy_dtype, 2 * spec.size)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("network", NETWORKS, ids=name_of)
def test_inference_is_equal_to_float64(network: Network) -> None:
    trial = built(network, NetworkConditions())

    error = trial.logits_error()

    assert error <= trial.tolerance()


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("network", TRAINED, ids=name_of)
@pytest.mark.parametrize(("training", "steps"), [(Training(), 1), (WITH_MOMENTUM, 3)], ids=["plain", "momentum"])
def test_training_is_equal_to_float64(network: Network, training: Training, steps: int) -> None:
    trial = built(network, NetworkConditions(is_training=True, training=training))

    error = trial.training_error(training, steps)

    assert error <= trial.tolerance(is_training=True, steps=steps)


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


def test_average_pooling_is_refused() -> None:
    class Average(Cifar10):
        def describe(self) -> tuple[Layer, ...]:
            spec = Pool2d(2, 3, 4, 4, 2, 2, mode="average")
            return (Layer("pool", "pool2d", spec, spec.output_shape()),)

    assert "max pooling only, and pool has average" in BUILDER.supports(Average(), NetworkConditions())
    assert BUILDER.supports(Cifar10(), NetworkConditions(is_training=True)) == ""
