"""Whose work the instructions of a compiled program are: op_names in, layers and phases out. Standard library only.

XLA keeps for every instruction the op_name of the JAX code that it came from. Instructions that the compiler made
itself have none: their place follows from what is fused into them, or from who uses them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from profkit.capture.schema import BACKWARD, COPY, EXACT, FORWARD, INFERRED, OPTIMISER
from profkit.frameworks.jax.hlo import HloInstruction, Module, bare_shape, shape_bytes

_WRAPPER = re.compile(r"^(\w+)\((.*)\)$")
# What decides the type and the place of a fusion, the heaviest first: the compiler also fuses a weight's update into
# what computes its gradient. A fusion without any of these is what it does last.
_HEAVY = ("convolution", "dot", "custom-call", "reduce-window", "select-and-scatter", "scatter", "sort", "reduce")
_SILENT = {"bitcast", "tuple", "get-tuple-element", "parameter", "constant"}
_MOVES = _SILENT | {"transpose", "copy", "reverse", "reshape", "broadcast"}
_PHASES = (FORWARD, BACKWARD, OPTIMISER)


@dataclass(frozen=True)
class NameScope:
    """What an op_name says."""

    layer: str | None
    phase: str | None


ReadScope = Callable[[str], NameScope]
Neighbours = dict[str, list[HloInstruction]]
NOWHERE = NameScope(None, None)
UPDATE = NameScope(None, OPTIMISER)


@dataclass(frozen=True)
class PlacedInstruction:
    """One instruction as the tables show it."""

    type: str
    layer: str | None
    phase: str | None
    quality: str
    fused: str | None
    fused_places: tuple[str, ...]
    """Every layer and phase of which it does something ("conv2 backward"), when there are several."""
    implementation: str | None
    shapes: str
    output_bytes: int


def scope_reader(layers: Iterable[str], optimiser: str = "optimiser", strip: bool = False) -> ReadScope:
    """Reads op_names such as jit(train_step)/transpose(jvp(conv2))/dot_general; the innermost known layer counts.

    `optimiser` is the scope of the weights' update. With `strip`, conv2_1 is conv2 too, unless there is such a layer:
    Keras numbers names that it has met before.
    """
    known = set(layers)

    def layer_of(name: str) -> str | None:
        if name in known:
            return name
        base, _, number = name.rpartition("_")
        return base if strip and number.isdigit() and base in known else None

    def read(op_name: str) -> NameScope:
        layer = phase = None
        for part in op_name.split("/"):
            name, wrappers = _unwrapped(part)
            layer = layer_of(name) or layer
            if "transpose" in wrappers:
                phase = BACKWARD
            elif name == optimiser or (strip and name.rpartition("_")[0] == optimiser):
                phase = OPTIMISER
            elif ("jvp" in wrappers or layer) and phase is None:
                phase = FORWARD
        return NameScope(layer, phase)

    return read


def _unwrapped(part: str) -> tuple[str, list[str]]:
    """transpose(jvp(conv2)) as conv2 and its wrappers."""
    wrappers = []
    while found := _WRAPPER.match(part):
        wrappers.append(found.group(1))
        part = found.group(2)
    return part, wrappers


class Placement:
    """Whose work the instructions of a module are."""

    def __init__(self, module: Module, read: ReadScope, default_phase: str | None = None) -> None:
        """`default_phase` is that of instructions about which nothing can be said: all is forward in inference."""
        self._module = module
        self._read = read
        self._default_phase = default_phase
        self._users: Neighbours = {}
        self._operands: Neighbours = {}
        self._from_users: dict[str, frozenset[NameScope]] = {}
        self._from_operands: dict[str, frozenset[NameScope]] = {}
        loops = {name: each for each in module.instructions.values() if each.opcode == "while" for name in each.called}
        self._loops = {
            each.name: loops[name] for name, inside in module.computations.items() if name in loops for each in inside
        }
        """The loop that an instruction is in."""
        for instruction in module.instructions.values():
            operands = [each for name in instruction.operands if (each := module.instructions.get(name))]
            self._operands[instruction.name] = operands
            for each in operands:
                self._users.setdefault(each.name, []).append(instruction)

    def work(self, name: str) -> PlacedInstruction | None:
        """Of the instruction of this name; None when the module has none."""
        instruction = self._module.instructions.get(name)
        if instruction is None:
            return None
        inside = [each for each in self._module.inside(instruction) if each.opcode not in _SILENT]
        scope, quality = self._scope(instruction)
        opcodes = tuple(dict.fromkeys(each.opcode for each in inside))
        scopes = dict.fromkeys(self._read(each.op_name) for each in inside)
        places = tuple(f"{each.layer} {each.phase}" for each in scopes if each.layer)
        return PlacedInstruction(
            main_opcode(instruction, inside or self._module.inside(instruction)),
            scope.layer,
            scope.phase or self._default_phase,
            quality,
            "+".join(opcodes) if len(opcodes) > 1 else None,
            places if len(places) > 1 else (),
            instruction.target.strip("_") or None,
            " ".join(bare_shape(each.shape) for each in self._operands[name]),
            shape_bytes(instruction.shape),
        )

    def _scope(self, instruction: HloInstruction) -> tuple[NameScope, str]:
        own = self._own(instruction)
        if own == UPDATE:
            # Whose weights are updated: those whose gradient comes in.
            layer = _only(scope.layer for scope in self._scopes_around(instruction, self._operands))
            return NameScope(layer, OPTIMISER), EXACT if layer is None else INFERRED
        if own.phase is not None:
            return own, EXACT
        inferred = self._inferred(instruction)
        if inferred.layer is None and instruction.name in self._loops:
            return self._scope(self._loops[instruction.name])[0], INFERRED
        return inferred, INFERRED

    def _inferred(self, instruction: HloInstruction) -> NameScope:
        """What all users agree on: one layer, or none; one phase, or the first in which it is needed.

        What only updates use, but is made of gradients, is a gradient. A copy that several phases use serves none of
        them alone: it is in the phase of copies.
        """
        users, operands = (self._scopes_around(instruction, around) for around in (self._users, self._operands))
        scopes = users or operands
        layer = _only(scope.layer for scope in scopes)
        phases = {scope.phase for scope in scopes}
        if phases == {OPTIMISER} and any(scope.phase == BACKWARD for scope in operands):
            return NameScope(layer, BACKWARD)
        if len(phases) > 1 and all(each.opcode in _MOVES for each in self._module.inside(instruction) or [instruction]):
            return NameScope(layer, COPY)
        return NameScope(layer, next((phase for phase in _PHASES if phase in phases), None))

    def _own(self, instruction: HloInstruction) -> NameScope:
        """By its op_name; a fusion by the heaviest of what it does, else by its name, what it does last, or most."""
        inside = self._module.inside(instruction)
        heavy = heaviest(inside)
        named = [heavy] if heavy else []
        for each in (*named, instruction, *(each for each in inside if each.is_root)):
            scope = self._read(each.op_name)
            if scope.phase is not None:
                return scope
        votes = Counter(scope for each in inside if (scope := self._read(each.op_name)).phase is not None)
        return votes.most_common(1)[0][0] if votes else NOWHERE

    def _scopes_around(self, instruction: HloInstruction, around: Neighbours) -> frozenset[NameScope]:
        """Of all its users, or of all operands that it is made of, looking through those who have no scope."""
        known = self._from_users if around is self._users else self._from_operands
        if instruction.name not in known:
            scopes: set[NameScope] = set()
            for each in around.get(instruction.name, ()):
                own = self._own(each)
                # An update without a layer is looked through to the gradient that it was made of.
                is_known = own.phase is not None and (own != UPDATE or around is self._users)
                scopes |= {own} if is_known else self._scopes_around(each, around)
            known[instruction.name] = frozenset(scopes)
        return known[instruction.name]


def _only(names: Iterable[str | None]) -> str | None:
    """The one name that they all have; None when they have several, or none."""
    found = {name for name in names if name is not None}
    return found.pop() if len(found) == 1 else None


def heaviest(inside: Sequence[HloInstruction]) -> HloInstruction | None:
    """Of what is fused, the operation that takes the time; None when all of it is light."""
    found = [each for each in inside if each.opcode in _HEAVY]
    return min(found, key=lambda each: _HEAVY.index(each.opcode)) if found else None


def main_opcode(instruction: HloInstruction, inside: Sequence[HloInstruction]) -> str:
    """What an instruction does mainly: its own opcode, or the heaviest of what is fused, or the last."""
    if not inside:
        return instruction.opcode
    heavy = heaviest(inside)
    if heavy:
        return heavy.opcode
    opcodes = [each.opcode for each in inside]
    last = [opcode for opcode in opcodes if opcode not in _MOVES]
    if last:
        return last[-1]
    return "transpose" if "transpose" in opcodes else opcodes[-1]
