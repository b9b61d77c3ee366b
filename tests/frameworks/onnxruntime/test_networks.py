"""Networks in ONNX Runtime: equal to float64 in today's format and in that of 2018, inference only."""

from __future__ import annotations

import pytest

from profkit.errors import UnsupportedError
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.onnxruntime.model import CNTK_ERA, TODAY, Dialect, onnx_model
from profkit.frameworks.onnxruntime.networks import BUILDER
from profkit.ops.networks import Cifar10, Layer, Mlp, Network, Solar
from profkit.ops.networks.network import Chain
from tests.frameworks.networks.network_checks import NETWORKS, built_here, name_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.parametrize("mode", BUILDER.modes)
@pytest.mark.parametrize("network", [*NETWORKS, Solar(batch=2)], ids=name_of)
def test_inference_is_equal_to_float64(network: Network, mode: str) -> None:
    trial = built_here(BUILDER, network, NetworkConditions(threads=2, mode=mode))

    error = trial.logits_error()

    assert error <= trial.tolerance()


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


def test_training_and_even_normalisation_are_refused_with_the_reason() -> None:
    class Even(Cifar10):
        def describe(self) -> tuple[Layer, ...]:
            return Chain(self.input_shape()).norm("norm", size=4).layers

    assert "inference only" in BUILDER.supports(Mlp(), NetworkConditions(is_training=True))
    assert "odd size, got 4" in BUILDER.supports(Even(), NetworkConditions())
    assert BUILDER.supports(Cifar10(), NetworkConditions()) == ""


def test_a_session_cannot_be_trained_and_gives_back_its_weights() -> None:
    network = Mlp(batch=2, hidden=1, neurons=4)
    trial = built_here(BUILDER, network, NetworkConditions(mode="default"))

    with pytest.raises(UnsupportedError, match="inference only"):
        trial.built.train(trial.batch)

    assert {name: value.shape for name, value in trial.built.weights().items()} == network.parameter_shapes()
