"""Keras over torch: torch's own events, with Keras' layers, the decay of their weights and Keras' optimiser marked."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from profkit.capture.schema import Capture
from profkit.frameworks.events import Pass, SourceSubject
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.torch.events import SOURCE as TORCH_SOURCE
from profkit.frameworks.torch.events import Modules, record_modules
from profkit.frameworks.torch.networks import EAGER
from profkit.frameworks.torch.spans import OPTIMIZER


class _Spot:
    """Everything that a layer does goes through here: its call, and the decay of its weights."""

    def forward(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What torch's source puts a layer's span around."""
        return function(*arguments, **keywords)


def torch_passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """Those of torch."""
    return TORCH_SOURCE.passes(replace(conditions, mode=EAGER))


def record_torch(watched: SourceSubject, name: str, steps: int) -> Capture:
    """Operators, their layers and their memory, or oneDNN's primitives."""
    torch = importlib.import_module("torch")
    built: Any = watched.built
    with _through_spots(built.keras_model) as spots, _marked_optimiser(torch, built.optimiser):
        modules = Modules(spots, lambda: _owners(built), built.held_bytes, framework="keras")
        return record_modules(watched, name, steps, modules)


@contextmanager
def _through_spots(model: Any) -> Iterator[Mapping[str, _Spot]]:
    """While open, layers and regularisers are called through spots of the layers' names."""
    spots = {layer.name: _Spot() for layer in model.layers}
    regularisers = [(each, each.regularizer) for each in model.trainable_variables if each.regularizer is not None]
    for layer in model.layers:
        # In the instance's dictionary, beside Keras' tracking of attributes.
        layer.__dict__["forward"] = _through(spots[layer.name], layer.forward)
    for variable, regulariser in regularisers:
        variable.regularizer = _through(spots[_layer_of(variable)], regulariser)
    try:
        yield spots
    finally:
        for layer in model.layers:
            del layer.__dict__["forward"]
        for variable, regulariser in regularisers:
            variable.regularizer = regulariser


def _through(spot: _Spot, function: Callable[..., Any]) -> Callable[..., Any]:
    # The spot's method is looked up at every call: torch's source shadows it.
    return lambda *arguments, **keywords: spot.forward(function, *arguments, **keywords)


@contextmanager
def _marked_optimiser(torch: Any, optimiser: Any) -> Iterator[None]:
    """Keras' optimisers do not announce themselves to torch as torch's own do."""
    apply = optimiser.apply

    def marked(*arguments: Any, **keywords: Any) -> Any:
        with torch.profiler.record_function(f"{OPTIMIZER}apply#keras.{type(optimiser).__name__}"):
            return apply(*arguments, **keywords)

    optimiser.__dict__["apply"] = marked
    try:
        yield
    finally:
        del optimiser.__dict__["apply"]


def _owners(built: Any) -> dict[int, str]:
    """The layer of every parameter and of its momentum, by the address of its memory."""
    variables = built.keras_model.trainable_variables
    kept = zip(built.optimiser.momentums, variables)
    pairs = [(each, each) for each in variables] + list(kept)
    return {held.value.untyped_storage().data_ptr(): _layer_of(variable) for held, variable in pairs}


def _layer_of(variable: Any) -> str:
    """conv2 of conv2/kernel, or of network/conv2/kernel."""
    return str(variable.path.split("/")[-2])
