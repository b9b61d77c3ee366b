"""Networks in ONNX Runtime: a model written here (model.py), one session, inference only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.frameworks.onnxruntime.model import CNTK_ERA, TODAY, Dialect, onnx_model, refuse_dialect
from profkit.frameworks.onnxruntime.operators import ADAPTER, new_session
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.networks.layer import ATTENTION, IMAGES, LAYER_KINDS
from profkit.ops.networks.network import Network

INFERENCE_ONLY = "the onnxruntime package runs inference only"
DIALECTS: Mapping[str, Dialect] = {"default": TODAY, "opset7": CNTK_ERA}
NOTES = (
    "weights are initialisers: the session packs them when it is created",
    "the session chooses layouts: convolutions may run on blocked channels (NCHWc) between Reorder nodes",
)
OLD_NOTE = (
    "the model is written as exporters of 2018 did (CNTK among them): opset 7, IR 3, weights listed as inputs too"
)


class OnnxModel:
    """The serialised model, and the session that runs it at the moment."""

    def __init__(self, serialised: bytes, threads: int) -> None:
        self.serialised = serialised
        self._threads = threads
        self.session = self.new_session()

    def new_session(self, profile_prefix: str = "", plans_memory: bool = True) -> Any:
        """With a prefix it writes a profile. Sessions that plan memory take one block for all values of a run."""
        options: dict[str, Any] = {"enable_mem_pattern": plans_memory}
        if profile_prefix:
            options |= {"enable_profiling": True, "profile_file_prefix": os.fspath(profile_prefix)}
        return new_session(self.serialised, self._threads, **options)


class BuiltOnnxNetwork(BuiltNetwork):
    no_training = INFERENCE_ONLY

    def __init__(self, model: OnnxModel, network: Network, weights: Mapping[str, Array], notes: Sequence[str]) -> None:
        self.model = model
        self.notes = notes
        self._outputs = [network.layers[-1].name]
        self._weights = weights

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> dict[str, Array]:
        return {IMAGES: np.ascontiguousarray(images)}

    def infer(self, batch: dict[str, Array]) -> Array:
        result: Array = self.model.session.run(self._outputs, batch)[0]
        return result

    def weights(self) -> dict[str, Array]:
        return {name: np.array(value) for name, value in self._weights.items()}


class OnnxRuntimeBuilder(NetworkBuilder):
    name = "onnxruntime"
    modes: Sequence[str] = tuple(DIALECTS)
    optimizers = ()
    kinds = LAYER_KINDS
    composed = (ATTENTION,)

    def is_available(self) -> Availability:
        return ADAPTER.is_available()

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        if conditions.is_training:
            return f"{INFERENCE_ONLY}: take torch, tensorflow, jax or native for training"
        norms = [layer.spec for layer in network.layers if isinstance(layer.spec, LocalResponseNorm)]
        even = [spec.size for spec in norms if spec.size % 2 == 0]
        if even:
            return f"onnxruntime's LRN takes an odd size, got {even[0]}"
        return refuse_dialect(network, DIALECTS[conditions.mode])

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """As the operators' adapter, with the operator set of this mode."""
        facts = ADAPTER.start(Implementation("network/onnxruntime/cpu", self.name), Conditions(conditions.threads))
        dialect = DIALECTS[conditions.mode]
        return {**facts, "opset": str(dialect.opset), "ir": str(dialect.ir_version)}

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltOnnxNetwork:
        model = OnnxModel(onnx_model(network, weights, DIALECTS[conditions.mode]), conditions.threads)
        notes = [*NOTES, OLD_NOTE] if conditions.mode == "opset7" else list(NOTES)
        return BuiltOnnxNetwork(model, network, weights, notes)


BUILDER = OnnxRuntimeBuilder()
