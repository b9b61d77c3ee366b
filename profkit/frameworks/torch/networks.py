"""Networks in PyTorch on CPU: eager modules in NCHW or channels_last, or compiled by inductor."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.frameworks.adapter import Array, require
from profkit.frameworks.framework import quiet_warnings
from profkit.frameworks.networks.contract import NetworkBuilder, NetworkConditions, refuse_layers
from profkit.frameworks.torch.operators import begin_torch
from profkit.ops.networks.network import CROSS_ENTROPY, Network

EAGER, CHANNELS_LAST, COMPILE = "eager", "channels_last", "compile"


@dataclass
class TorchNetwork:
    """A network ready to run; follows BuiltNetwork. `model` is the nn.Sequential, its children named as the layers."""

    network: Network
    model: Any
    compiled: Any
    """What runs: the model itself, or its compiled form."""
    optimizer: Any
    loss: Any
    mode: str
    notes: Sequence[str]
    graphs: Any = None
    """Of a compiled model: the kernels of its graphs (CompiledGraphs)."""

    def put(self, images: Array, labels: Array) -> Any:
        """Copies, in the memory format of the model."""
        torch = importlib.import_module("torch")
        held = torch.tensor(images)
        if self.mode == CHANNELS_LAST and held.dim() == 4:
            held = held.contiguous(memory_format=torch.channels_last)
        return held, torch.tensor(labels)

    def infer(self, batch: Any) -> Any:
        """Forward as torch recommends it for inference: no graph, no version counters."""
        torch = importlib.import_module("torch")
        self._set_training(False)
        with torch.inference_mode():
            return self.compiled(batch[0])

    def train(self, batch: Any) -> Any:
        """The loop of every torch tutorial; gradients are dropped, not zeroed, which is torch's default."""
        self._set_training(True)
        images, labels = batch
        self.optimizer.zero_grad()
        loss = self.loss(self.compiled(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def to_numpy(self, result: Any) -> Array:
        """Logits or the loss."""
        array: Array = result.detach().contiguous().numpy()
        return array

    def weights(self) -> dict[str, Array]:
        """Copies in canonical shapes."""
        from profkit.frameworks.torch.modules import get_weights

        return get_weights(self.network, self.model)

    def _set_training(self, is_training: bool) -> None:
        if self.model.training != is_training:
            self.model.train(is_training)


class TorchBuilder(NetworkBuilder):
    """Modules, eager or compiled."""

    name = "torch"
    modes = (EAGER, CHANNELS_LAST, COMPILE)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains with max pooling; compiling needs a compiler."""
        if conditions.mode == COMPILE and not _has_compiler():
            return "torch.compile needs a C++ compiler: install g++, or name one in CXX; mode eager needs none"
        return refuse_layers(network, self.name)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """Keep a GPU build of torch away from the device and its start-up cost."""
        return {"CUDA_VISIBLE_DEVICES": ""}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """Import torch and set its threads."""
        require(self.is_available())
        return begin_torch(conditions.threads)

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> TorchNetwork:
        """The model with these weights, and SGD over its parameters."""
        torch = importlib.import_module("torch")
        modules = importlib.import_module("profkit.frameworks.torch.modules")
        with quiet_warnings():
            model = modules.build_modules(network)
            modules.set_weights(network, model, weights)
        notes = ["ReLU works in place", *modules.notes_of(model)]
        if not conditions.is_training:
            notes.insert(0, "inference runs under torch.inference_mode")
        if conditions.mode == CHANNELS_LAST:
            model = model.to(memory_format=torch.channels_last)
            notes.append("images and filters are held as NHWC (channels_last); flatten copies them back to c, h, w")
        compiled, graphs = model, None
        if conditions.mode == COMPILE:
            notes.append("compiled by inductor at the first step; loss and optimiser run eagerly")
            names = [layer.name for layer in network.layers]
            compiled, graphs = importlib.import_module("profkit.frameworks.torch.compiled").compile_model(model, names)
        training = conditions.training
        groups = modules.parameter_groups(network, model, training.weight_decay)
        functional = importlib.import_module("torch.nn.functional")
        return TorchNetwork(
            network,
            model,
            compiled,
            torch.optim.SGD(groups, lr=training.learning_rate, momentum=training.momentum),
            functional.cross_entropy if network.loss == CROSS_ENTROPY else functional.mse_loss,
            conditions.mode,
            tuple(notes),
            graphs,
        )


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++") if name)


BUILDER = TorchBuilder()
