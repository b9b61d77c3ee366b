"""Inner loops in machine code: an object file of one instruction set in, each kernel's hottest loops out.

A kernel is the launch function that an entry of the registry points to; what it reaches through calls and addresses is
its code. A loop is a jump backwards with no other one inside. llvm-mca models the loop; nothing is run. Its model of
Zen 3 (LLVM 14) gives 256-bit FMAs half of the rate that the machine reaches, so loops with FMAs go through that of
Zen 2, whose rate is right; that one in turn counts shuffles far too high, so the others stay with Zen 3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from listings import ListedInstruction, ListingError, demangled, output_of, tool

FMA_MODEL, OTHER_MODEL, WIDE_MODEL = "znver2", "znver3", "icelake-server"
FMA_PIPES = 2
ITERATIONS = 200
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_RELOCATION = re.compile(r"^\s*[0-9a-f]+:?\s+R_X86_64_\w+\s+(\S+)")


class Instruction(ListedInstruction):
    """In AT&T syntax."""

    jump = "j"
    target_pattern = re.compile(r"^([0-9a-f]+) <")

    @property
    def kind(self) -> str:
        """What it is for: FMA, load, broadcast, shuffle, store, vector (other arithmetic) or other."""
        parts = _operands(self.operands)
        reads = any("(" in part for part in parts[:-1]) or (len(parts) == 1 and "(" in parts[0])
        if self.opcode.startswith(("vfmadd", "vfnmadd", "vfmsub", "vfnmsub")):
            return "FMA"
        if self.opcode.startswith(("vbroadcast", "vpbroadcast", "vmovddup")):
            return "broadcast"
        if self.opcode.startswith(("vperm", "vpshuf", "vshuf", "vunpck", "vinsert", "vextract", "vblend", "vpunpck")):
            return "shuffle"
        if self.opcode.startswith(("vmov", "vlddqu", "vgather")):
            return "store" if parts and "(" in parts[-1] else "load" if reads else "vector"
        return "vector" if self.opcode.startswith("v") else "other"


@dataclass(frozen=True)
class Loop:
    """An innermost loop and what it consists of."""

    function: str
    """Demangled, without its arguments."""
    instructions: tuple[Instruction, ...]

    @property
    def mix(self) -> Counter[str]:
        return Counter(instruction.kind for instruction in self.instructions)

    @property
    def memory_operands(self) -> int:
        """Instructions that read memory, arithmetic with a memory operand included."""
        return sum("(" in item.operands and item.kind != "store" for item in self.instructions)


@dataclass(frozen=True)
class ObjectCode:
    """What an object file holds."""

    functions: dict[str, list[Instruction]]
    references: dict[str, set[str]]
    """Mangled names that a function's code mentions."""
    roots: dict[str, str]
    """Launch functions by the name of the registry's entry: conv2d_direct."""


def read_object(path: Path) -> ObjectCode:
    """Disassemble one object file."""
    listing = output_of(tool("objdump"), "-dr", "--no-show-raw-insn", str(path))
    functions: dict[str, list[Instruction]] = {}
    references: dict[str, set[str]] = {}
    current = ""
    for line in listing.splitlines():
        if found := _FUNCTION.match(line):
            current = found[1]
            functions[current], references[current] = [], set()
        elif found := _RELOCATION.match(line):
            references[current].add(_symbol(found[1]))
        elif current and (found := _LINE.match(line)):
            functions[current].append(Instruction(int(found[1], 16), found[2], found[3].partition("#")[0].strip()))
    return ObjectCode(functions, references, _entries(path, functions))


def _entries(path: Path, functions: Mapping[str, object]) -> dict[str, str]:
    """The registry's entries in an object: by name, the function that one points to and that takes a CpuCall."""
    pointers: dict[str, dict[int, str]] = {}
    section = ""
    for line in output_of(tool("objdump"), "-r", str(path)).splitlines():
        if found := re.match(r"RELOCATION RECORDS FOR \[(.+)\]", line):
            section = found[1]
        elif "R_X86_64_64" in line and (found := _RELOCATION.match(line)):
            pointers.setdefault(section, {})[int(line.split()[0], 16)] = _symbol(found[1])
    entries = {}
    table = output_of(tool("objdump"), "-t", str(path))
    symbols = re.findall(r"^([0-9a-f]+) .{7} (\.data\S*)\s+([0-9a-f]+) (?:\.hidden )?(\S+)$", table, re.MULTILINE)
    for value, place, size, name in symbols:
        begin, end = int(value, 16), int(value, 16) + int(size, 16)
        for at, target in pointers.get(place, {}).items():
            if begin <= at < end and "CpuCall" in target and target in functions:
                entries[name] = target
    readable = demangled([*entries])
    return {readable[name].split("::")[-1]: target for name, target in entries.items()}


def kernel_loops(code: ObjectCode, most: int = 3) -> dict[str, list[Loop]]:
    """By the entry's name: the loops of float32 code with the most FMAs, one per function."""
    readable = demangled([*code.functions])
    found = {}
    for name, root in code.roots.items():
        loops = []
        for function in reached(code, root):
            if "double" not in readable[function]:
                loops += [best] if (best := hottest(readable[function], code.functions[function])) else []
        loops.sort(key=weight, reverse=True)
        found[name] = _distinct(loops)[:most]
    return found


def reached(code: ObjectCode, root: str) -> list[str]:
    """Functions of the object that a root's code leads to, itself first."""
    seen, waiting = [root], [root]
    while waiting:
        for name in sorted(code.references[waiting.pop()]):
            if name in code.functions and name not in seen:
                seen.append(name)
                waiting.append(name)
    return seen


def hottest(function: str, instructions: Sequence[Instruction]) -> Loop | None:
    """The innermost loop with the most FMAs, or the most vector instructions where there are none."""
    spans = [
        (item.target, item.address)
        for item in instructions
        if item.target is not None and instructions[0].address <= item.target <= item.address
    ]
    inner = [
        span for span in spans
        if not any(other != span and span[0] <= other[0] and other[1] <= span[1] for other in spans)
    ]  # fmt: skip
    loops = [
        Loop(short_name(function), tuple(item for item in instructions if begin <= item.address <= end))
        for begin, end in inner
    ]
    return max((loop for loop in loops if weight(loop) > (0, 0)), key=weight, default=None)


def weight(loop: Loop) -> tuple[int, int]:
    """By what loops are compared."""
    mix = loop.mix
    return mix["FMA"], sum(mix.values()) - mix["other"]


def modelled_cycles(loop: Loop, isa: str = "avx2") -> float:
    """Cycles of one turn by llvm-mca, data in the first-level cache."""
    model = FMA_MODEL if loop.mix["FMA"] else OTHER_MODEL
    if isa == "avx512":  # which those two do not have
        model = WIDE_MODEL
    lines = [_assembler(item) for item in loop.instructions]
    command = [f"-mcpu={model}", f"-iterations={ITERATIONS}", "-instruction-info=0", "-resource-pressure=0"]
    text = output_of(tool("llvm-mca"), *command, given="\n".join(lines) + "\n")
    found = re.search(r"Total Cycles:\s+(\d+)", text)
    if found is None:
        raise ListingError(f"llvm-mca does not take the loop of {loop.function}: {text[:300]}")
    return int(found[1]) / ITERATIONS


def peak_share(loop: Loop, cycles: float) -> float:
    """FMAs of a turn over those that its cycles have room for."""
    return loop.mix["FMA"] / (FMA_PIPES * cycles)


def short_name(function: str) -> str:
    """`run_tile_sized<float, 6, 2, PackedTile<float>>` of a demangled name."""
    plain = re.sub(r"profkit::\w+::|\(anonymous namespace\)::|profkit::|\[clone [^\]]*\]", "", function)
    depth, text = 0, ""
    for sign in plain:
        depth += {"<": 1, ">": -1}.get(sign, 0)
        if sign == "(" and depth == 0:
            break
        text += sign
    return text.removeprefix("void ").replace("> >", ">>").strip()


def _distinct(loops: Iterable[Loop]) -> list[Loop]:
    """The best loop of each template: smaller tiles of the same one tell nothing new."""
    kept: dict[str, Loop] = {}
    for loop in loops:
        kept.setdefault(re.sub(r"\b\d+\b", "N", loop.function), loop)
    return list(kept.values())


def _operands(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part]


def _assembler(item: Instruction) -> str:
    """As an assembler takes it: targets of jumps are a label, symbols are gone."""
    if item.target is not None or item.opcode.startswith(("j", "call")):
        return f"{item.opcode} .L"
    return f"{item.opcode} {re.sub(r'<[^>]*>', '', item.operands)}"


def _symbol(text: str) -> str:
    """The name in a relocation: without its offset, and of a section of one function that function's."""
    return re.sub(r"[-+]0x[0-9a-f]+$", "", text).removeprefix(".text.")
