"""Keras' names over TensorFlow: a node's path in, layer and phase out; nameless nodes go by their neighbours.

Keras puts `network_1/conv2_1/...` before what a layer does, `gradient_tape/` before its gradients, `sgd/` before the
update. Sums of gradients (AddN) and the decay of weights have no layer in their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Any

from profkit.capture.schema import BACKWARD, EXACT, FORWARD, HOST, INFERRED, OPTIMISER
from profkit.frameworks.tensorflow.names import NetworkPlace, layer_of
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD

TAPE = "gradient_tape"
OPTIMISER_SCOPES = (SGD, ADAM, RMSPROP)
"""Keras works under the name of its optimiser."""
_TOGETHER = "IdentityN"
_NUMBER = re.compile(r"_\d+$")
_REACH = 5
"""How many nameless neighbours are looked through."""


def name_scope(node: str, layers: Collection[str], losses: Collection[str] = ()) -> tuple[str | None, str | None]:
    """Layer and phase by the path; without a layer, tape, optimiser or loss it says nothing of the phase."""
    parts = [_NUMBER.sub("", part) for part in node.split("/")]
    layer = next((found for part in node.split("/") if (found := layer_of(part, layers))), None)
    if any(part in OPTIMISER_SCOPES for part in parts):
        return layer, OPTIMISER
    if TAPE in parts:
        return layer, BACKWARD
    return layer, FORWARD if layer is not None or any(part in losses for part in parts) else None


class KerasPlacer:
    def __init__(self, graph: Any, layers: Collection[str], losses: Collection[str]) -> None:
        """`losses` are scopes of the loss, which belong to no layer."""
        self._graph = graph
        self._layers = frozenset(layers)
        self._losses = frozenset(losses)
        self._known = cache(self._place)

    def __call__(self, node: str) -> NetworkPlace:
        return self._known(node)

    def _place(self, node: str) -> NetworkPlace:
        layer, phase = self._by_name(node)
        if layer is not None or self._is_loss(node):
            return NetworkPlace(layer, phase or FORWARD, EXACT)
        try:
            operation = self._graph.get_operation_by_name(node)
        except (KeyError, ValueError):
            operation = None  # made by TensorFlow's optimiser
        found = self._infer(operation) if operation is not None else None
        phase = phase or self._phase_of_inputs(operation)
        return NetworkPlace(found, phase or HOST, EXACT if found is None else INFERRED)

    def _by_name(self, node: str) -> tuple[str | None, str | None]:
        return name_scope(node, self._layers, self._losses)

    def _is_loss(self, node: str) -> bool:
        return any(_NUMBER.sub("", part) in self._losses for part in node.split("/"))

    def _infer(self, operation: Any) -> str | None:
        """The layer that all inputs agree on, else all users; else the nearest behind nameless neighbours."""
        inputs, users = _inputs(operation), _users(operation)
        layer = self._only_layer(inputs) or self._only_layer(users)
        seen = {operation.name}
        near = [*inputs, *users]
        for _ in range(_REACH):
            if layer is not None:
                return layer
            near = [each for each in near if self._is_nameless(each.name) and each.name not in seen]
            seen.update(each.name for each in near)
            near = [found for each in near for found in (*_inputs(each), *_users(each))]
            layer = self._only_layer(near)
        return layer

    def _only_layer(self, operations: Iterable[Any]) -> str | None:
        layers = {layer for each in operations if (layer := self._by_name(each.name)[0])}
        return layers.pop() if len(layers) == 1 else None

    def _is_nameless(self, node: str) -> bool:
        return self._by_name(node)[0] is None and not self._is_loss(node)

    def _phase_of_inputs(self, operation: Any) -> str | None:
        """A sum of gradients is work of the backward phase."""
        phases = {self._by_name(each.name)[1] for each in _inputs(operation)} if operation is not None else set()
        return next((phase for phase in (OPTIMISER, BACKWARD, FORWARD) if phase in phases), None)


def _inputs(operation: Any) -> list[Any]:
    return [_made(tensor).op for tensor in operation.inputs if not _is_scalar(tensor)]


def _made(tensor: Any) -> Any:
    """Where a tensor really comes from: Keras passes all gradients through one operation, each unchanged."""
    while tensor.op.type == _TOGETHER:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _users(operation: Any) -> list[Any]:
    return [user for tensor in operation.outputs if not _is_scalar(tensor) for user in _users_of(tensor)]


def _users_of(tensor: Any) -> Iterator[Any]:
    for user in tensor.consumers():
        if user.type != _TOGETHER:
            yield user
            continue
        for place, given in enumerate(user.inputs):
            if given is tensor:
                yield from _users_of(user.outputs[place])


def _is_scalar(tensor: Any) -> bool:
    """The rate and the momentum are one number for all layers: they lead from each to every other."""
    return bool(tensor.shape.rank == 0 and tensor.dtype.name != "resource")
