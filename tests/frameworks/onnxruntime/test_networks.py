"""Networks in ONNX Runtime: equal to float64 in today's format and in that of 2018, inference only."""

from __future__ import annotations

import pytest

from profkit.errors import UnsupportedError
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.onnxruntime.model import CNTK_ERA, TODAY, Dialect, onnx_model
from profkit.frameworks.onnxruntime.networks import BUILDER
from profkit.ops.networks import NETWORKS, Cifar10, Mlp
from profkit.ops.networks.published.transformer import Transformer
from tests.frameworks.networks.graphs import GRAPHS, inference_error
from tests.frameworks.networks.network_checks import built_here
from tests.ops.networks.small import small_networks

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.parametrize(("dialect", "opset", "ir"), [(TODAY, 22, 10), (CNTK_ERA, 7, 3)], ids=["today", "2018"])
def test_models_are_written_in_their_dialect_with_nodes_named_after_layers(
    dialect: Dialect, opset: int, ir: int
) -> None:
    network = Cifar10(batch=2, crop=24, filters=8)

    model = onnx.load_model_from_string(onnx_model(network, network.initial_weights(), dialect))

    assert (model.opset_import[0].version, model.ir_version) == (opset, ir)
    assert [node.name for node in model.graph.node][:4] == ["conv1/Conv", "conv1/Relu", "pool1/MaxPool", "norm1/LRN"]
    assert {node.name.split("/")[0] for node in model.graph.node} == {layer.name for layer in network.layers}
    assert {tensor.name for tensor in model.graph.initializer} == set(network.parameter_shapes())
    listed = {value.name for value in model.graph.input}
    assert listed == ({"images", *network.parameter_shapes()} if dialect is CNTK_ERA else {"images"})


@pytest.mark.parametrize("mode", BUILDER.modes)
def test_graphs_of_all_layers_are_equal_to_float64(mode: str) -> None:
    BUILDER.start(NetworkConditions(mode=mode))
    networks = [network for network, _ in GRAPHS if not BUILDER.supports(network, NetworkConditions(mode=mode))]

    errors = {network.name: inference_error(BUILDER, network, mode) for network in networks}

    assert len(errors) == (3 if mode == "default" else 1)
    for error, accepted in errors.values():
        assert error <= accepted


@pytest.mark.full
def test_every_published_network_is_inferred_as_float64_does() -> None:
    BUILDER.start(NetworkConditions(mode="default"))

    errors = {network.name: inference_error(BUILDER, network, "default") for network in small_networks()}

    assert errors.keys() == NETWORKS.keys()
    assert {name: found for name, found in errors.items() if not found[0] <= found[1]} == {}


def test_what_came_after_2018_is_refused_in_the_format_of_2018() -> None:
    network = Transformer(batch=2, length=4, width=8, heads=2, depth=1)

    reasons = [BUILDER.supports(network, NetworkConditions(mode=mode)) for mode in BUILDER.modes]

    assert reasons == ["", "block1_norm1: LayerNormalization came with opset 17, the model is written for 7"]


def test_a_session_cannot_be_trained_and_gives_back_its_weights() -> None:
    network = Mlp(batch=2, hidden=1, neurons=4)
    trial = built_here(BUILDER, network, NetworkConditions(mode="default"))

    with pytest.raises(UnsupportedError, match="inference only"):
        trial.built.train(trial.batch)

    assert {name: value.shape for name, value in trial.built.weights().items()} == network.parameter_shapes()
