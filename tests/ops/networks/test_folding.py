"""Networks whose batch normalisations are a part of the convolutions before them: the same results, other layers."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.data.weights import SavedWeights
from profkit.errors import SpecError
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import NETWORKS, Network, fold_batch_norm, network_from_dict
from profkit.ops.networks.layer import BATCH_NORM, CONV2D
from profkit.ops.networks.reference import network_tolerance, reference_logits
from profkit.ops.spec import Array, max_error
from tests.ops.networks.small import small_networks

FOLDABLE = {"resnet50": (53, 0), "wrn_16_8": (3, 4), "basic_svhn": (2, 2)}
"""Of the small variants: normalisations that are folded, and that stay."""
CHAINS = ("theano", "caffe")
QUICK = ("numpy", "native")
FRAMEWORKS = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full])
    for name in BUILDERS
    if name not in (*CHAINS, "cupy")
]


def small(name: str) -> Network:
    return next(network for network in small_networks() if network.name == name)


def moved_weights(network: Network) -> dict[str, Array]:
    """Statistics, scales and shifts as training leaves them, not as they begin."""
    random = np.random.default_rng(4)
    weights = network.initial_weights(1)
    for name in weights:
        if name.endswith((".scale", ".variance")):
            weights[name] = random.uniform(0.5, 2.0, weights[name].shape).astype(np.float32)
        elif name.endswith((".shift", ".mean", ".b")):
            weights[name] = random.uniform(-0.5, 0.5, weights[name].shape).astype(np.float32)
    return weights


def images_of(network: Network) -> Array:
    return np.random.default_rng(2).standard_normal(network.input_shape()).astype(np.float32)


@pytest.mark.parametrize("name", FOLDABLE)
def test_a_folded_network_gives_what_the_declared_one_gives(name: str) -> None:
    network = small(name)
    folded, weights, images = fold_batch_norm(network), moved_weights(network), images_of(network)

    own = folded.weights_from(weights)

    norms = [sum(layer.kind == BATCH_NORM for layer in each.layers) for each in (network, folded)]
    assert (norms[0] - norms[1], norms[1]) == FOLDABLE[name]
    assert {key: array.shape for key, array in own.items()} == folded.weight_shapes()
    error = max_error(reference_logits(folded, own, images), reference_logits(network, weights, images))
    assert 0.0 < error <= network_tolerance(folded, is_training=False)


def test_only_a_bare_convolution_that_nobody_else_reads_is_folded() -> None:
    folded = fold_batch_norm(small("wrn_16_8"))
    readers = {source: layer for layer in folded.layers for source in layer.inputs}

    with_bias = [
        layer for layer in folded.layers if layer.kind == CONV2D and f"{layer.name}.b" in folded.weight_shapes()
    ]

    assert all(readers[layer.name].kind == "activation" for layer in with_bias)
    assert len(with_bias) == FOLDABLE["wrn_16_8"][0]


def test_a_folded_network_is_read_back_from_its_description() -> None:
    folded = fold_batch_norm(small("resnet50"))

    assert network_from_dict(folded.to_dict()) == folded
    assert folded.replaced(batch=1).input_shape()[0] == 1
    assert folded.words()["fold_batch_norm"] == "yes" and folded.name == "resnet50"


@pytest.mark.parametrize("name", ["mlp", "cifar10", "transformer"])
def test_a_network_without_such_a_normalisation_is_refused_by_name(name: str) -> None:
    with pytest.raises(SpecError, match=f"{name}: no batch_norm takes the result of a convolution directly"):
        fold_batch_norm(NETWORKS[name]())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_frameworks_run_it_and_are_checked_against_the_declared_network(framework: str) -> None:
    if not load_builder(framework).is_available().available:
        pytest.skip(f"{framework} is not installed")
    network = small("wrn_16_8")
    weights = SavedWeights(moved_weights(network), "moved")

    run = run_network(NetworkRequest(fold_batch_norm(network), framework, weights=weights, steps=1, passes=()))

    assert (run.status, run.reason) == ("ok", "")
    assert run.error is not None
    assert run.tolerance is not None
    assert 0.0 < run.error <= run.tolerance


def test_training_is_refused_with_the_reason() -> None:
    run = run_network(NetworkRequest(fold_batch_norm(small("wrn_16_8")), "numpy", is_training=True))

    assert run.status == "unsupported"
    assert run.reason.startswith("a folded batch_norm has the statistics of inference")
