"""Keras' event source: that of the backend below, with Keras' own names of layers, gradients and the optimiser.

Over TensorFlow bytes are those of its BFC allocator. Over torch the decay of weights and Keras' optimiser are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.layer_shares import layer_facts
from profkit.frameworks.jax.events import PASS as JAX_PASS
from profkit.frameworks.jax.events import record_jax, record_program
from profkit.frameworks.jax.placement import NameScope, scope_reader
from profkit.frameworks.keras.names import KerasPlacer, name_scope
from profkit.frameworks.keras.networks import TENSORFLOW_XLA
from profkit.frameworks.keras.operators import JAX, TORCH
from profkit.frameworks.lazy import torch
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.eager import AllocatorChanges
from profkit.frameworks.tensorflow.events import BFC_NOTE, add_kernels, kernel_events
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.profile import STEP, HostProfile, profile_marked, profile_steps
from profkit.frameworks.torch.events import Modules, record_modules
from profkit.frameworks.torch.events import passes as torch_passes
from profkit.frameworks.torch.networks import EAGER
from profkit.frameworks.torch.spans import OPTIMIZER

LOSSES = ("sparse_categorical_crossentropy", "mean_squared_error", "binary_crossentropy")
XLA_NOTE = "TensorFlow does not report the memory that XLA planned for a compiled function: bytes are unknown"


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    if conditions.mode == JAX:
        return (JAX_PASS,)
    if conditions.mode == TENSORFLOW_XLA:
        return (Pass(TIME, (TIME,), note=XLA_NOTE),)
    if conditions.mode == TORCH:
        return torch_passes(replace(conditions, mode=EAGER))
    return Pass(TIME, (TIME,)), Pass(MEMORY, (MEMORY,), {"TF_CPU_ALLOCATOR_USE_BFC": "1"}, BFC_NOTE)


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    if watched.conditions.mode == JAX:
        layers = [layer.name for layer in watched.network.layers]
        scope = watched.conditions.training.optimizer  # Keras works under its name
        return record_jax(watched, steps, scope_reader(layers, scope, strip=True), "keras")
    if watched.conditions.mode == TENSORFLOW_XLA:
        return _tensorflow_xla(watched, steps)
    if watched.conditions.mode == TORCH:
        return _torch(watched, name, steps)
    return _tensorflow(watched, name, steps)


def _tensorflow(watched: SourceSubject, name: str, steps: int) -> Capture:
    """Kernels; for memory with what they took from the allocator and gave back."""
    built: Any = watched.built
    profile = profile_steps(EventLog("keras", "xplane", name), watched.step, steps)
    graph = built.graph(watched.conditions.is_training)
    placer = KerasPlacer(graph, [layer.name for layer in watched.network.layers], LOSSES)
    if name == TIME:
        add_kernels(profile, placer, GraphFacts(graph))
    else:
        changes = AllocatorChanges(profile, kernel_events(profile))
        changes.add(add_kernels(profile, placer, GraphFacts(graph), changes.columns))
        profile.log.facts["held_bytes"] = built.held_bytes
    capture = profile.log.finish()
    return replace(capture, facts={**capture.facts, **layer_facts(capture)})


def _tensorflow_xla(watched: SourceSubject, steps: int) -> Capture:
    """XLA's thunks; TensorFlow's profile has them as JAX's has. Of their program it has the instructions only."""
    built: Any = watched.built
    text = built.compiled_text(watched.conditions.is_training)
    profiled = profile_marked(watched.step, steps)
    host = HostProfile(EventLog("keras", "xplane", TIME), profiled)
    events = [event for event in host.events if event.name != STEP]
    space = replace(profiled.space, events=events, warnings=host.log.facts["notes"])
    layers = frozenset(layer.name for layer in watched.network.layers)

    def read_scope(name: str) -> NameScope:
        return NameScope(*name_scope(name, layers, LOSSES))

    about: dict[str, Any] = {"cost_analysis": {}}
    return record_program(watched, text, about, profiled._replace(space=space), read_scope, "keras")


class _Spot:
    """Everything that a layer does goes through here: its call, and the decay of its weights."""

    def forward(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """What torch's source puts a layer's span around."""
        return function(*arguments, **keywords)


def _torch(watched: SourceSubject, name: str, steps: int) -> Capture:
    """Operators, their layers and their memory, or oneDNN's primitives."""
    built: Any = watched.built
    with _through_spots(built) as spots, _marked_optimiser(built.optimiser):
        modules = Modules(spots, lambda: _owners(built), built.held_bytes, framework="keras")
        return record_modules(watched, name, steps, modules)


@contextmanager
def _through_spots(built: Any) -> Iterator[Mapping[str, _Spot]]:
    """While open, layers and regularisers are called through spots of the layers' names."""
    layers = [built.keras_model.get_layer(layer.name) for layer in built.network.layers]
    spots = {layer.name: _Spot() for layer in layers}
    variables = built.keras_model.trainable_variables
    regularisers = [(each, each.regularizer) for each in variables if each.regularizer is not None]
    for layer in layers:
        # In the instance's dictionary, beside Keras' tracking of attributes.
        layer.__dict__["forward"] = _through(spots[layer.name], layer.forward)
    for variable, regulariser in regularisers:
        variable.regularizer = _through(spots[built.layer_of(variable)], regulariser)
    try:
        yield spots
    finally:
        for layer in layers:
            del layer.__dict__["forward"]
        for variable, regulariser in regularisers:
            variable.regularizer = regulariser


def _through(spot: _Spot, function: Callable[..., Any]) -> Callable[..., Any]:
    # The spot's method is looked up at every call: torch's source shadows it.
    return lambda *arguments, **keywords: spot.forward(function, *arguments, **keywords)


@contextmanager
def _marked_optimiser(optimiser: Any) -> Iterator[None]:
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
    """The layer of every parameter and of what the optimiser keeps of it, by the address of its memory."""
    pairs = [*((each, each) for each in built.variables.values()), *built.slots()]
    return {held.value.untyped_storage().data_ptr(): built.layer_of(variable) for held, variable in pairs}
