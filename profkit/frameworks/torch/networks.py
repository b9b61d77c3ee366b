"""Networks in PyTorch on CPU: eager modules in NCHW or channels_last, or compiled by inductor."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.frameworks.adapter import Array, require
from profkit.frameworks.framework import quiet_warnings
from profkit.frameworks.lazy import torch
from profkit.frameworks.networks.contract import (
    NESTEROV,
    Allocations,
    BuiltNetwork,
    NetworkBuilder,
    NetworkConditions,
)
from profkit.frameworks.torch.operators import begin_torch
from profkit.ops.networks.layer import LAYER_KINDS, LSTM
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD

EAGER, CHANNELS_LAST, COMPILE = "eager", "channels_last", "compile"


@dataclass
class TorchNetwork(BuiltNetwork):
    """A network ready to run. `model` has the layers as children, under their names."""

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

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Any:
        """Copies, in the memory format of the model."""
        held = torch.tensor(images)
        if self.mode == CHANNELS_LAST and held.dim() == 4:
            held = held.contiguous(memory_format=torch.channels_last)
        return held, torch.tensor(labels), {name: torch.tensor(mask) for name, mask in (masks or {}).items()}

    def infer(self, batch: Any) -> Any:
        """Forward as torch recommends it for inference: no graph, no version counters."""
        self._set_training(False)
        with torch.inference_mode():
            return self.compiled(batch[0])

    def train(self, batch: Any) -> Any:
        """The loop of every torch tutorial; gradients are dropped, not zeroed, which is torch's default."""
        self._set_training(True)
        self.optimizer.zero_grad()
        loss = self._loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def gradients(self, batch: Any) -> dict[str, Array]:
        self._set_training(True)
        states = [buffer.clone() for buffer in self.model.buffers()]
        self.optimizer.zero_grad()
        self._loss(batch).backward()
        found: dict[str, Array] = _modules().get_gradients(self.network, self.model)
        self.optimizer.zero_grad()
        for buffer, before in zip(self.model.buffers(), states):
            buffer.copy_(before)
        return found

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
            if isinstance(self.optimizer, torch.optim.SGD):
                group["momentum"] = momentum

    def _loss(self, batch: Any) -> Any:
        """Forward, with masks of dropout where there are any."""
        images, labels, masks = batch
        for name, mask in masks.items():
            getattr(self.model, name).mask = mask
        loss = self.loss(self.compiled(images), labels)
        for name in masks:
            getattr(self.model, name).mask = None
        return loss

    def to_numpy(self, result: Any) -> Array:
        array: Array = result.detach().contiguous().numpy()
        return array

    def weights(self) -> dict[str, Array]:
        weights: dict[str, Array] = _modules().get_weights(self.network, self.model)
        return weights

    def _set_training(self, is_training: bool) -> None:
        if self.model.training != is_training:
            self.model.train(is_training)


class TorchBuilder(NetworkBuilder):
    name = "torch"
    modes = (EAGER, CHANNELS_LAST, COMPILE)
    kinds = LAYER_KINDS
    composed = (LSTM,)
    optimizers = (SGD, NESTEROV, ADAM, RMSPROP)
    has_schedules = True

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        if conditions.mode == COMPILE and not _has_compiler():
            return "torch.compile needs a C++ compiler: install g++, or name one in CXX; mode eager needs none"
        return ""

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """Keep a GPU build of torch away from the device and its start-up cost."""
        return {"CUDA_VISIBLE_DEVICES": ""}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        require(self.is_available())
        return begin_torch(conditions.threads)

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> TorchNetwork:
        modules = _modules()
        with quiet_warnings():
            model = modules.Model(network)
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
        return TorchNetwork(
            network,
            model,
            compiled,
            _optimizer(groups, training),
            _loss_of(network),
            conditions.mode,
            tuple(notes),
            graphs,
        )

    def record_allocations(self, run: Callable[[], None]) -> Allocations:
        found: Allocations = importlib.import_module("profkit.frameworks.torch.allocations").record_allocations(run)
        return found


def _modules() -> Any:
    return importlib.import_module("profkit.frameworks.torch.modules")


def _optimizer(groups: Any, training: Training) -> Any:
    """Torch's own define them as Training does."""
    rate, momentum = training.rates()
    if training.optimizer == ADAM:
        return torch.optim.Adam(groups, rate, (training.beta1, training.beta2), training.epsilon)
    if training.optimizer == RMSPROP:
        return torch.optim.RMSprop(groups, rate, training.rho, training.epsilon)
    return torch.optim.SGD(groups, rate, momentum, nesterov=training.nesterov)


def _loss_of(network: Network) -> Any:
    functional = torch.nn.functional
    losses = {
        CROSS_ENTROPY: functional.cross_entropy,
        SQUARED_ERROR: functional.mse_loss,
        BINARY_CROSS_ENTROPY: functional.binary_cross_entropy_with_logits,
    }
    return losses[network.loss]


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++") if name)


BUILDER = TorchBuilder()
