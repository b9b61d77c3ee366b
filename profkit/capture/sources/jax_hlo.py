"""XLA's compiled program as text in, its instructions and whose work each one is out. Standard library only.

`jax.stages.Compiled.as_text()` prints every instruction with the op_name of the JAX code that it came from. Those that
the compiler made itself have none: their place follows from what is fused into them, or from who uses them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from profkit.capture.recording import BACKWARD, COPY, EXACT, FORWARD, INFERRED, OPTIMISER

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(\S+) .*\{$")
_INSTRUCTION = re.compile(r"^  (ROOT )?%?(\S+) = ((?:\([^=]*?\)|\S+)) ([a-z][\w\-]*)\((.*)$")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_CALLED = re.compile(r"(?:calls|to_apply|body)=%?([\w.\-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"|"kind":"([^"]+)"')
_OPERAND = re.compile(r"%([\w.\-]+)")
_ARRAY = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_WRAPPER = re.compile(r"^(\w+)\((.*)\)$")

# What decides the type of a fusion, the heaviest first; a fusion without any of them is named after its last operation.
_HEAVY = ("convolution", "dot", "custom-call", "reduce-window", "select-and-scatter", "scatter", "sort", "reduce")
_SILENT = {"bitcast", "tuple", "get-tuple-element", "parameter", "constant"}
_MOVES = _SILENT | {"transpose", "copy", "reverse", "reshape", "broadcast"}
_PHASES = (FORWARD, BACKWARD, OPTIMISER)


@dataclass(frozen=True)
class Instruction:
    """One line of the program."""

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    op_name: str = ""
    called: tuple[str, ...] = ()
    """Computations inside: the body of a fusion, the function of a reduction."""
    target: str = ""
    """The library or kind of fusion that runs it, where the text says so."""
    is_root: bool = False


@dataclass
class Module:
    """A program: instructions by name (unique in a module), and those of each computation in order."""

    name: str = ""
    instructions: dict[str, Instruction] = field(default_factory=dict)
    computations: dict[str, list[Instruction]] = field(default_factory=dict)

    def inside(self, instruction: Instruction) -> list[Instruction]:
        """What a fusion or call does, without its parameters and constants."""
        if instruction.opcode not in {"fusion", "call"}:
            return []
        return [each for name in instruction.called for each in self.computations.get(name, ())]


@dataclass(frozen=True)
class Scope:
    """What an op_name says."""

    layer: str | None
    phase: str | None


ReadScope = Callable[[str], Scope]
NOWHERE = Scope(None, None)


@dataclass(frozen=True)
class Work:
    """One instruction as the tables show it."""

    type: str
    layer: str | None
    phase: str | None
    quality: str
    fused: str | None
    fused_layers: tuple[str, ...]
    """Every layer of which it does something, when there are several."""
    implementation: str | None
    shapes: str
    output_bytes: int


def parse_module(text: str) -> Module:
    """Read the text of a module."""
    module = Module(name=text[: text.find(",")].removeprefix("HloModule ").strip())
    current: list[Instruction] = []
    for line in text.splitlines():
        if line.startswith("  "):
            found = _INSTRUCTION.match(line)
            if found:
                instruction = _instruction(*found.groups())
                module.instructions[instruction.name] = instruction
                current.append(instruction)
        elif line.endswith("{"):
            started = _COMPUTATION.match(line)
            current = module.computations.setdefault(started.group(1) if started else line, [])
    return module


def _instruction(root: str | None, name: str, shape: str, opcode: str, rest: str) -> Instruction:
    operands, attributes = _split_call(rest)
    op_name, target = _OP_NAME.search(attributes), _TARGET.search(attributes)
    return Instruction(
        name,
        opcode,
        shape,
        tuple(_OPERAND.findall(operands)),
        op_name.group(1) if op_name else "",
        tuple(_CALLED.findall(attributes)),
        next(filter(None, target.groups()), "") if target else "",
        root is not None,
    )


def _split_call(rest: str) -> tuple[str, str]:
    """The operands and what stands behind their closing bracket."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:place], rest[place + 1 :]
    return rest, ""


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

    def read(op_name: str) -> Scope:
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
        return Scope(layer, phase)

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
        self._users: dict[str, list[Instruction]] = {}
        for instruction in module.instructions.values():
            for operand in instruction.operands:
                self._users.setdefault(operand, []).append(instruction)
        self._from_users: dict[str, frozenset[Scope]] = {}

    def work(self, name: str) -> Work | None:
        """Of the instruction of this name; None when the module has none."""
        instruction = self._module.instructions.get(name)
        if instruction is None:
            return None
        inside = [each for each in self._module.inside(instruction) if each.opcode not in _SILENT]
        scope, quality = self._scope(instruction)
        opcodes = tuple(dict.fromkeys(each.opcode for each in inside))
        layers = tuple(dict.fromkeys(layer for each in inside if (layer := self._read(each.op_name).layer)))
        operands = (self._module.instructions.get(operand) for operand in instruction.operands)
        return Work(
            main_opcode(instruction, inside),
            scope.layer,
            scope.phase or self._default_phase,
            quality,
            "+".join(opcodes) if len(opcodes) > 1 else None,
            layers if len(layers) > 1 else (),
            instruction.target.strip("_") or None,
            " ".join(_bare(each.shape) for each in operands if each),
            shape_bytes(instruction.shape),
        )

    def _scope(self, instruction: Instruction) -> tuple[Scope, str]:
        own = self._own(instruction)
        if own.phase == OPTIMISER and own.layer is None:
            # Whose weights are updated: those whose gradient comes in.
            layer = self._agreed(instruction, self._scopes_of_operands(instruction))[0].layer
            return Scope(layer, OPTIMISER), EXACT if layer is None else INFERRED
        if own.phase is not None:
            return own, EXACT
        return self._agreed(instruction, self._scopes_of_users(instruction) or self._scopes_of_operands(instruction))

    def _own(self, instruction: Instruction) -> Scope:
        """By its op_name or, for a fusion without one, that of what it computes last, or most."""
        scope = self._read(instruction.op_name)
        if scope.phase is not None:
            return scope
        inside = [(each, self._read(each.op_name)) for each in self._module.inside(instruction)]
        roots = [scope for each, scope in inside if each.is_root and scope.phase is not None]
        if roots:
            return roots[0]
        votes = Counter(scope for _, scope in inside if scope.phase is not None)
        return votes.most_common(1)[0][0] if votes else NOWHERE

    def _scopes_of_users(self, instruction: Instruction) -> frozenset[Scope]:
        """Of all who need it, looking through those who have no scope themselves."""
        if instruction.name not in self._from_users:
            scopes: set[Scope] = set()
            for user in self._users.get(instruction.name, ()):
                own = self._own(user)
                scopes |= {own} if own.phase is not None else self._scopes_of_users(user)
            self._from_users[instruction.name] = frozenset(scopes)
        return self._from_users[instruction.name]

    def _scopes_of_operands(self, instruction: Instruction) -> frozenset[Scope]:
        operands = (self._module.instructions.get(name) for name in instruction.operands)
        return frozenset(scope for each in operands if each and (scope := self._own(each)).phase is not None)

    def _agreed(self, instruction: Instruction, scopes: frozenset[Scope]) -> tuple[Scope, str]:
        """What all neighbours agree on: one layer, or none; one phase, or the first in which it is needed.

        A copy that several phases use serves none of them alone: it is in the phase of copies.
        """
        layers = {scope.layer for scope in scopes if scope.layer is not None}
        phases = {scope.phase for scope in scopes}
        layer = layers.pop() if len(layers) == 1 else None
        if len(phases) > 1 and is_move(instruction, self._module.inside(instruction)):
            return Scope(layer, COPY), INFERRED
        return Scope(layer, next((phase for phase in _PHASES if phase in phases), None)), INFERRED


def main_opcode(instruction: Instruction, inside: Sequence[Instruction]) -> str:
    """What an instruction does mainly: its own opcode, or the heaviest of what is fused, or the last."""
    if not inside:
        return instruction.opcode
    opcodes = [each.opcode for each in inside]
    heavy = next((opcode for opcode in _HEAVY if opcode in opcodes), None)
    last = [opcode for opcode in opcodes if opcode not in _MOVES]
    if heavy or last:
        return heavy or last[-1]
    return "transpose" if "transpose" in opcodes else opcodes[-1]


def is_move(instruction: Instruction, inside: Sequence[Instruction]) -> bool:
    """Whether it computes nothing."""
    return all(each.opcode in _MOVES for each in (inside or [instruction]))


def shape_bytes(shape: str) -> int:
    """Bytes of an array or a tuple of arrays, such as (f32[32,10]{1,0}, pred[4])."""
    total = 0
    for kind, sizes in _ARRAY.findall(shape):
        count = 1
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        bits = re.search(r"\d+", kind)
        total += count * (max(1, int(bits.group()) // 8) if bits else 1)
    return total


def _bare(shape: str) -> str:
    """Without the layout: f32[32,10]."""
    return re.sub(r"\{[^}]*\}", "", shape)
