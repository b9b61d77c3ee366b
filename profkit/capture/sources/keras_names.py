"""Keras' names over TensorFlow: a node's path in, layer and phase out; nameless nodes go by their neighbours.

Keras puts `network_1/conv2_1/...` before what a layer does, `gradient_tape/` before its gradients, `sgd/` before the
update. Sums of gradients (AddN) and the decay of weights have no layer in their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from profkit.capture.recording import BACKWARD, EXACT, FORWARD, HOST, INFERRED, OPTIMISER
from profkit.capture.sources.tensorflow_names import Place

TAPE = "gradient_tape"
OPTIMISER_SCOPE = "sgd"
_NUMBER = re.compile(r"_\d+$")
_REACH = 3
"""How many nameless neighbours are looked through."""


def layer_of(part: str, layers: Collection[str]) -> str | None:
    """conv2_1 is conv2: Keras numbers names that it has met before. Only known layers lose their numbers."""
    if part in layers:
        return part
    plain = _NUMBER.sub("", part)
    return plain if plain in layers else None


class KerasPlacer:
    """Places the nodes of a traced function."""

    def __init__(self, graph: Any, layers: Collection[str], losses: Collection[str]) -> None:
        """`losses` are scopes of the loss, which belong to no layer."""
        self._graph = graph
        self._layers = frozenset(layers)
        self._losses = frozenset(losses)
        self._known: dict[str, Place] = {}

    def __call__(self, node: str) -> Place:
        if node not in self._known:
            self._known[node] = self._place(node)
        return self._known[node]

    def _place(self, node: str) -> Place:
        layer, phase = self._by_name(node)
        if layer is not None or self._is_loss(node):
            return Place(layer, phase or FORWARD, EXACT)
        operation = self._operation(node)
        found = self._infer(operation, _REACH, set()) if operation is not None else None
        phase = phase or self._phase_of_inputs(operation)
        return Place(found, phase or HOST, EXACT if found is None else INFERRED)

    def _by_name(self, node: str) -> tuple[str | None, str | None]:
        """What the path says; without layer, tape and optimiser it says nothing of the phase."""
        parts = node.split("/")
        layer = next((found for part in parts if (found := layer_of(part, self._layers))), None)
        if any(_NUMBER.sub("", part) == OPTIMISER_SCOPE for part in parts):
            return layer, OPTIMISER
        if TAPE in parts:
            return layer, BACKWARD
        return layer, FORWARD if layer is not None or self._is_loss(node) else None

    def _is_loss(self, node: str) -> bool:
        return any(_NUMBER.sub("", part) in self._losses for part in node.split("/"))

    def _operation(self, node: str) -> Any:
        try:
            return self._graph.get_operation_by_name(node)
        except (KeyError, ValueError):
            return None  # made by TensorFlow's optimiser

    def _infer(self, operation: Any, reach: int, seen: set[str]) -> str | None:
        """The layer that all inputs agree on, else all users; else what the same rule says of nameless neighbours."""
        seen.add(operation.name)
        inputs = [tensor.op for tensor in operation.inputs]
        users = [user for tensor in operation.outputs for user in tensor.consumers()]
        for neighbours in (inputs, users):
            layers = {layer for each in neighbours if (layer := self._by_name(each.name)[0])}
            if len(layers) == 1:
                return layers.pop()
        if not reach:
            return None
        nameless = [each for each in (*users, *inputs) if self._is_nameless(each) and each.name not in seen]
        return next((found for each in nameless if (found := self._infer(each, reach - 1, seen))), None)

    def _is_nameless(self, operation: Any) -> bool:
        return self._by_name(operation.name)[0] is None and not self._is_loss(operation.name)

    def _phase_of_inputs(self, operation: Any) -> str | None:
        """A sum of gradients is work of the backward phase."""
        phases = {self._by_name(name)[1] for name in _input_names(operation)}
        return next((phase for phase in (OPTIMISER, BACKWARD, FORWARD) if phase in phases), None)


def _input_names(operation: Any) -> Iterable[str]:
    return () if operation is None else (tensor.op.name for tensor in operation.inputs)
