"""What a tf.Graph knows of its nodes before they are optimised: shapes, output bytes, the parts of a fused kernel.

The optimiser keeps the names: a kernel that does Conv2D, BiasAdd and Relu has the name of the Relu.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

_FUSED = re.compile(r"_?Fused(\w+)$|(\w+)WithBias$")
_LONGEST_CHAIN = 8


class NodeFacts(NamedTuple):
    """None: the graph does not say."""

    shapes: str | None = None
    """Of the inputs."""
    fused: str | None = None
    output_bytes: int | None = None


class GraphFacts:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._chain_of = cache(self._find_chain)
        self.of = cache(self._find)

    def first(self, node: str, operator: str) -> str:
        """The node whose layer a node of this type belongs to: a convolution that is fused with what other layers do
        has the name of the last of them."""
        chain = self._chain_of(node, operator)
        return str(chain[0].name) if chain else node

    def _find_chain(self, node: str, operator: str) -> list[Any]:
        try:
            last = self._graph.get_operation_by_name(node)
        except (KeyError, ValueError):
            return []  # made by the optimiser
        return _chain(last, operator)

    def _find(self, node: str, operator: str) -> NodeFacts:
        """Facts of a node that runs as this type of operator; `of` looks it up once."""
        chain = self._chain_of(node, operator)
        if not chain:
            return NodeFacts()
        last = chain[-1]
        inside = {operation.name for operation in chain}
        inputs = [each for operation in chain for each in operation.inputs if each.op.name not in inside]
        types = [operation.type for operation in chain]
        if operator == f"{last.type}WithBias":
            types.append("BiasAddGrad")  # of the same gradient, and nowhere else in the graph's path to this node
        return NodeFacts(
            ", ".join(filter(None, map(_shape, inputs))) or None,
            "+".join(types) if len(types) > 1 else None,
            _output_bytes(last),
        )


def _chain(last: Any, operator: str) -> list[Any]:
    """The operations that the fused operator does, in their order; only the last for one that is not fused."""
    fused, chain = _FUSED.match(operator), [last]
    while fused and chain[0].inputs and len(chain) <= _LONGEST_CHAIN:
        chain.insert(0, chain[0].inputs[0].op)
        if chain[0].type in fused.groups():
            return chain
    return [last]


def _shape(tensor: Any) -> str | None:
    """As 4x24x24x3; a scalar is 1; variables' handles and unknown shapes have none."""
    if tensor.dtype.name == "resource" or not tensor.shape.is_fully_defined():
        return None
    return "x".join(map(str, tensor.shape.as_list())) or "1"


def _output_bytes(operation: Any) -> int | None:
    total = 0
    for output in operation.outputs:
        if output.dtype.name in {"resource", "string", "variant"} or not output.shape.is_fully_defined():
            return None
        total += output.shape.num_elements() * output.dtype.size
    return total
