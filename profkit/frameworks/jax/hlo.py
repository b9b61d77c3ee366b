"""The text of a program that XLA compiled in, its instructions out. Standard library only.

`jax.stages.Compiled.as_text()` prints one instruction per line; fusions call computations defined before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(\S+) .*\{$")
_INSTRUCTION = re.compile(r"^  (ROOT )?%?(\S+) = ((?:\([^=]*?\)|\S+)) ([a-z][\w\-]*)\((.*)$")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_COMMENT = re.compile(r"/\*.*?\*/")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"|"kind":"([^"]+)"')
_OPERAND = re.compile(r"%([\w.\-]+)")
_ARRAY = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")


@dataclass(frozen=True)
class HloInstruction:
    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    op_name: str = ""
    called: tuple[str, ...] = ()
    """Computations inside: the body of a fusion, the function of a reduction, condition and body of a loop."""
    target: str = ""
    """The library or kind of fusion that runs it, where the text says so."""
    is_root: bool = False


@dataclass
class Module:
    """A program: instructions by name (unique in a module), and those of each computation in order."""

    instructions: dict[str, HloInstruction] = field(default_factory=dict)
    computations: dict[str, list[HloInstruction]] = field(default_factory=dict)

    def inside(self, instruction: HloInstruction) -> list[HloInstruction]:
        """What a fusion or call does, without its parameters and constants."""
        if instruction.opcode not in {"fusion", "call"}:
            return []
        return [each for name in instruction.called for each in self.computations.get(name, ())]


def parse_module(text: str) -> Module:
    module = Module()
    current: list[HloInstruction] = []
    for line in text.splitlines():
        if line.startswith("  "):
            found = _INSTRUCTION.match(_COMMENT.sub("", line))  # /*index=5*/ in the shape of a tuple
            if found:
                instruction = _instruction(*found.groups())
                module.instructions[instruction.name] = instruction
                current.append(instruction)
        elif line.endswith("{"):
            started = _COMPUTATION.match(line)
            current = module.computations.setdefault(started.group(1) if started else line, [])
    return module


def _instruction(root: str | None, name: str, shape: str, opcode: str, rest: str) -> HloInstruction:
    operands, attributes = _split_call(rest)
    op_name, target = _OP_NAME.search(attributes), _TARGET.search(attributes)
    return HloInstruction(
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
    """The operands and the text behind their closing bracket."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:place], rest[place + 1 :]
    return rest, ""


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


def bare_shape(shape: str) -> str:
    """Without the layout: f32[32,10]."""
    return re.sub(r"\{[^}]*\}", "", shape)
