"""What nvcc made of a kernel: its main loop, the mix of instructions in it, and what the kernel occupies.

Run: python bench/sass.py file.cubin ... (or an object, or a module with kernels of several architectures in it).
cuobjdump is the toolkit's, or that of `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from listings import ListedInstruction, ListingError, demangled, output_of

# What a product costs: one instruction of these (FFMA2 multiplies two pairs, HMMA a whole fragment).
PRODUCTS = ("FFMA", "FFMA2", "HMMA")
LOADS = ("LDS", "LDSM", "LDG", "LDGSTS", "LD")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;]*);")
_RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")


class SassInstruction(ListedInstruction):
    """The opcode is without its modifiers."""

    jump = "BRA"
    target_pattern = re.compile(r"\b0x([0-9a-f]+)\s*$")


@dataclass(frozen=True)
class SassKernel:
    """One kernel of one architecture."""

    architecture: str
    mangled: str
    name: str
    instructions: list[SassInstruction]
    registers: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0


@dataclass(frozen=True)
class Mix:
    """What a run of instructions consists of."""

    counts: Counter[str]

    @property
    def instructions(self) -> int:
        return sum(self.counts.values())

    @property
    def products(self) -> int:
        """How many multiply: FFMA, FFMA2 and HMMA."""
        return sum(self.counts[opcode] for opcode in PRODUCTS)

    @property
    def loads(self) -> int:
        """How many bring data, from shared or global memory."""
        return sum(self.counts[opcode] for opcode in LOADS)

    @property
    def product_share(self) -> float:
        return self.products / self.instructions if self.counts else 0.0

    @property
    def loads_per_product(self) -> float:
        return self.loads / self.products if self.products else float("inf")


def mix(instructions: Iterable[SassInstruction]) -> Mix:
    """Count the opcodes; padding behind the end of a kernel is not in loops and hence not seen here."""
    return Mix(Counter(instruction.opcode for instruction in instructions))


def main_loop(instructions: Sequence[SassInstruction]) -> tuple[SassInstruction, ...]:
    """The loop that does the work: of those that hold no other loop with products in it, the one with most products.

    Without products in any loop it is the longest loop; without a loop nothing.
    """
    loops = [
        tuple(each for each in instructions if target <= each.address <= branch.address)
        for branch in instructions
        # A branch to itself is what the compiler puts behind the end.
        if (target := branch.target) is not None and target < branch.address
    ]
    working = [loop for loop in loops if mix(loop).products]
    innermost = [loop for loop in working if not any(_is_inside(other, loop) for other in working)]
    if innermost:
        return max(innermost, key=lambda loop: (mix(loop).products, -len(loop)))
    return max(loops, key=len, default=())


def _is_inside(inner: Sequence[SassInstruction], outer: Sequence[SassInstruction]) -> bool:
    begins, ends = inner[0].address >= outer[0].address, inner[-1].address <= outer[-1].address
    return begins and ends and len(inner) < len(outer)


def parse_sass(listing: str) -> list[SassKernel]:
    """The kernels of a `cuobjdump -sass` listing, names still mangled."""
    kernels, architecture = list[SassKernel](), ""
    for line in listing.splitlines():
        if found := re.search(r"\bcode for (sm_\w+)", line):
            architecture = found.group(1)
        elif found := re.search(r"\bFunction : (\S+)", line):
            kernels.append(SassKernel(architecture, found.group(1), found.group(1), []))
        elif found := _INSTRUCTION.match(line):
            each = SassInstruction(int(found.group(1), 16), found.group(2), found.group(3).strip())
            kernels[-1].instructions.append(each)
    return kernels


def kernels_in(path: Path) -> list[SassKernel]:
    """The kernels of a cubin, an object or a module, with readable names and what they occupy."""
    kernels = parse_sass(output_of(cuobjdump(), "-sass", str(path)))
    resources = _resources(output_of(cuobjdump(), "-res-usage", str(path)))
    names = demangled([kernel.mangled for kernel in kernels])
    result = []
    for kernel in kernels:
        # Of a cubin, which is for one architecture, the resources come without it.
        found = resources.get((kernel.architecture, kernel.mangled)) or resources["", kernel.mangled]
        name, (registers, stack, shared) = names[kernel.mangled], found
        result.append(replace(kernel, name=name, registers=registers, stack_bytes=stack, shared_bytes=shared))
    return result


def _resources(listing: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(architecture, mangled name) -> registers, bytes of stack (spills are there), bytes of static shared memory."""
    found, architecture, function = {}, "", ""
    for line in listing.splitlines():
        if words := re.search(r"\barch = (sm_\w+)", line):
            architecture = words.group(1)
        elif words := re.search(r"\bFunction (\S+):", line):
            function = words.group(1)
        elif words := _RESOURCES.search(line):
            found[architecture, function] = (int(words.group(1)), int(words.group(2)), int(words.group(3)))
    return found


def function_name(name: str) -> str:
    """`void profkit::cuda::matmul_naive<float>(...)` -> `matmul_naive`."""
    head = re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0]
    return head.rpartition("::")[2]


def cuobjdump() -> str:
    """The disassembler: of PATH or of the wheel."""
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    places = [*wheels.glob("cu*/bin"), *wheels.glob("cuda_cuobjdump/bin")]
    found = shutil.which("cuobjdump") or next(
        (path for place in places if (path := shutil.which("cuobjdump", path=str(place)))), None
    )
    if found is None:
        raise ListingError("no cuobjdump; pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm")
    return found


def describe(kernel: SassKernel) -> str:
    """One line: name, architecture, registers and the main loop."""
    loop = mix(main_loop(kernel.instructions))
    commonest = ", ".join(f"{count} {opcode}" for opcode, count in loop.counts.most_common(7))
    sizes = f"{kernel.registers} registers, {kernel.stack_bytes} B stack, {kernel.shared_bytes} B shared"
    share = f"{loop.products}/{loop.instructions} = {loop.product_share:.3f} products"
    return f"{kernel.architecture} {kernel.name.partition('(')[0]}: {sizes}; main loop {share} ({commonest})"


def main(paths: Sequence[str]) -> int:
    """Print every kernel of the files."""
    if not paths:
        print(__doc__)
        return 2
    try:
        for path in paths:
            for kernel in kernels_in(Path(path)):
                print(describe(kernel))
    except ListingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
