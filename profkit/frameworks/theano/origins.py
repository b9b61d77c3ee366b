"""Whose an operator of Theano's optimised graph is: origins set on the graph as it is written follow every rewriting.

Theano replaces, fuses and renames variables of the graph. Each has an Origin in its tag; while Theano optimises,
a replacement inherits it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Variable = Any
Node = Any
# Operators that do most of the work of what they are fused with: a product that swallows an update stays a product.
_HEAVY = ("Conv", "Corr", "Dot", "Gemm", "Gemv", "Ger", "Pool", "Softmax")
_FAR = 64
"""Fusions are smaller than this; a longer search has left the replaced nodes."""


class OperatorOrigin(NamedTuple):
    phase: str
    layer: str
    """Empty for the loss."""


@dataclass(frozen=True)
class VariableTag:
    origin: OperatorOrigin
    also: frozenset[OperatorOrigin] = frozenset()
    """Other origins that were fused into the same operator."""


def mark(outputs: Iterable[Variable], origin: OperatorOrigin) -> None:
    """Set the origin of everything that leads to these variables and has none yet."""
    for variable in unmarked(outputs):
        variable.tag.profkit = VariableTag(origin)


def mark_of(variable: Variable) -> VariableTag | None:
    return getattr(variable.tag, "profkit", None)


def mark_of_node(node: Node) -> VariableTag | None:
    """The mark of an operator: that of its first marked output."""
    return next(filter(None, map(mark_of, node.outputs)), None)


def unmarked(outputs: Iterable[Variable]) -> Iterator[Variable]:
    """Computed variables without a mark, from these back to where marks begin."""
    waiting = list(outputs)
    seen = set()
    while waiting:
        variable = waiting.pop()
        if variable in seen or variable.owner is None or mark_of(variable) is not None:
            continue
        seen.add(variable)
        yield variable
        # A sibling output may be used although nothing leads to it from here.
        waiting += variable.owner.inputs + variable.owner.outputs


class OriginFollower:
    """A feature of a graph that is being optimised (Theano calls on_change_input at every replacement)."""

    def on_change_input(
        self, graph: Any, client: Any, position: int, old: Variable, new: Variable, reason: Any = None
    ) -> None:
        """`new` takes the place of `old`."""
        if new.owner is None or mark_of(new) is not None:
            return
        made = list(unmarked([new]))
        fused, is_exact = _fused_into(made, old)
        own = mark_of(old)
        heavy = next((found for found in map(mark_of_node, filter(_is_heavy, fused)) if found), own)
        if own is None or heavy is None:
            return
        for variable in made:
            variable.tag.profkit = VariableTag((heavy if _is_heavy(variable.owner) else own).origin)
        if is_exact:
            origin = (heavy if _is_heavy(new.owner) else own).origin
            # Heavy work that stays a separate operator beside a light one is not part of it.
            parts = [node for node in fused if _is_heavy(new.owner) or not _is_heavy(node)]
            new.tag.profkit = VariableTag(origin, _others(parts, origin))


def _others(fused: Iterable[Node], origin: OperatorOrigin) -> frozenset[OperatorOrigin]:
    """Origins of work (not of views) that became part of another operator."""
    marks = [mark_of_node(node) for node in fused if "DimShuffle" not in type(node.op).__name__]
    return frozenset(each for found in marks if found for each in (found.origin, *found.also)) - {origin}


def _fused_into(made: Iterable[Variable], old: Variable) -> tuple[list[Node], bool]:
    """Operators of the old graph, nearest first, between `old` and what the new operators take as inputs.

    Not exact when the search went past those inputs: what was replaced did more than what replaces it.
    """
    made = set(made)
    inputs = {taken for variable in made for taken in variable.owner.inputs} - made
    found: list[Node] = []
    is_exact = True
    waiting = deque([old])
    while waiting and len(found) < _FAR:
        variable = waiting.popleft()
        if variable in inputs or variable.owner in found:
            continue
        if variable.owner is None:
            is_exact = is_exact and hasattr(variable, "data")  # a constant
            continue
        found.append(variable.owner)
        waiting += variable.owner.inputs
    return found, is_exact and not waiting


def _is_heavy(node: Node) -> bool:
    return any(word in type(node.op).__name__ for word in _HEAVY)
