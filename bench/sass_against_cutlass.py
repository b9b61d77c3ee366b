"""Machine code of profkit's CUDA products beside CUTLASS's SIMT sgemm, by the same nvcc: nothing runs, no GPU needed.

Run: python bench/sass_against_cutlass.py > docs/measured/sass_against_cutlass.md   (two minutes), in an environment
with `pip install nvidia-cutlass nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm` and with nvcc on PATH.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from listings import ListingError
from measured_page import page_head
from sass import SassKernel, function_name, kernels_in, main_loop, mix

SOURCES = Path(__file__).parents[1] / "csrc"
ARCHITECTURES = ("sm_80", "sm_90")
SHARE_GOAL, REGISTERS_GOAL = 0.85, 128
FLAGS = ("-std=c++17", "-O3", "-cubin")
CUTLASS = "CUTLASS SIMT sgemm"
# 128x128x8 tiles, warps of 32x64 elements, 4 stages, row-major float32.
CUTLASS_SOURCE = """
#include <cutlass/gemm/device/gemm.h>

using Rows = cutlass::layout::RowMajor;
using Product = cutlass::gemm::device::Gemm<
    float, Rows, float, Rows, float, Rows, float, cutlass::arch::OpClassSimt, cutlass::arch::Sm80,
    cutlass::gemm::GemmShape<128, 128, 8>, cutlass::gemm::GemmShape<32, 64, 8>, cutlass::gemm::GemmShape<1, 1, 1>,
    cutlass::epilogue::thread::LinearCombination<float, 1, float, float>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 4>::GemmKernel;
template __global__ void cutlass::Kernel<Product>(Product::Params);
"""
# Sources of ours and the kernels to show of them; of a kernel's instances those of the largest tile.
OURS = {
    "kernels/matmul/cuda/double_buffered.cu": ("matmul_double_buffered",),
    "kernels/matmul/cuda/vectorized.cu": ("matmul_vectorized",),
    "kernels/conv2d/cuda/implicit_gemm.cu": ("conv2d_implicit_gemm", "conv2d_implicit_gemm_weights"),
}
EXPLANATION = (
    "The main loop is the innermost loop with most FFMA (`bench/sass.py`). CUTLASS's kernel has tiles of 128x128x8,"
    " 4 stages, row-major float32; ours are all instances with the largest tile. Template arguments of the matmul"
    " kernels: tile, layout of a and of b (`along`: terms are neighbours in memory, `across`: rows or columns are;"
    " row-major is along, across), whether rows are aligned to 128 bits. Compiled, not run: a share says how much"
    " of the issued instructions is arithmetic, not how fast a kernel is."
)
WITH_A_GOAL = ("matmul_double_buffered", "conv2d_implicit_gemm")


@dataclass(frozen=True)
class SassRow:
    """One kernel of one architecture, as the table shows it."""

    name: str
    architecture: str
    products: int
    instructions: int
    loads: int
    registers: int
    stack_bytes: int

    @property
    def share(self) -> float:
        return self.products / self.instructions if self.instructions else 0.0

    @property
    def is_short(self) -> bool:
        """Whether a kernel that has the goal misses it."""
        has_goal = self.name.partition("<")[0] in WITH_A_GOAL
        return has_goal and (self.share < SHARE_GOAL or self.registers > REGISTERS_GOAL or self.stack_bytes > 0)

    def words(self) -> list[str]:
        """The cells of its line."""
        per_product = f"{self.loads / self.products:.4f}" if self.products else "-"
        counts = [str(self.products), str(self.instructions), f"{self.share:.3f}", per_product]
        return [self.name, self.architecture, *counts, str(self.registers), str(self.stack_bytes)]


def row_of(kernel: SassKernel, name: str) -> SassRow:
    """The numbers of a kernel's main loop."""
    loop = mix(main_loop(kernel.instructions))
    sizes = (loop.products, loop.instructions, loop.loads, kernel.registers, kernel.stack_bytes)
    return SassRow(name, kernel.architecture, *sizes)


def instance_name(name: str) -> str:
    """`void profkit::cuda::f<128, (profkit::cuda::Layout)1, true>(...)` -> `f<128, along, true>`."""
    found = re.match(r"[^<(]*<([^>]*)>", name)
    if found is None:
        return function_name(name)
    words = found.group(1).replace("(profkit::cuda::Layout)0", "across").replace("(profkit::cuda::Layout)1", "along")
    return f"{function_name(name)}<{words}>"


def largest_tiles(kernels: Sequence[SassKernel]) -> list[SassKernel]:
    """The instances with the largest first two template numbers."""

    def tile(kernel: SassKernel) -> int:
        numbers = [int(word) for word in re.findall(r"[<,] ?(\d+)", kernel.name.partition(">")[0])]
        return numbers[0] * numbers[1] if len(numbers) > 1 else 0

    largest = max(map(tile, kernels), default=0)
    return [kernel for kernel in kernels if tile(kernel) == largest]


def cutlass_headers(given: Path | None) -> Path:
    """The folder that has cutlass/gemm: `given`, or that of the wheel."""
    spec = importlib.util.find_spec("cutlass_library") if given is None else None
    found = Path(spec.origin).parent / "source" / "include" if spec and spec.origin else given
    if found is None or not (found / "cutlass" / "gemm").is_dir():
        raise ListingError(f"no CUTLASS headers in {found}; pip install nvidia-cutlass, or name them by --cutlass")
    return found


def compiled(source: Path, include: Path, architecture: str, folder: Path) -> list[SassKernel]:
    """The kernels of a source."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise ListingError("no nvcc on PATH")
    target = folder / f"{source.stem}-{architecture}.cubin"
    command = [nvcc, *FLAGS, f"-arch={architecture}", "-I", str(include), str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ListingError(f"nvcc cannot compile {source.name} for {architecture}:\n{done.stderr[-2000:]}")
    return kernels_in(target)


def rows(architecture: str, headers: Path, folder: Path) -> list[SassRow]:
    """CUTLASS first, then ours, the best share of each kernel first."""
    source = folder / "cutlass_sgemm.cu"
    source.write_text(CUTLASS_SOURCE)
    result = [row_of(kernel, CUTLASS) for kernel in compiled(source, headers, architecture, folder)]
    for path, names in OURS.items():
        if not (SOURCES / path).is_file():
            continue
        kernels = compiled(SOURCES / path, SOURCES, architecture, folder)
        for name in names:
            instances = largest_tiles([kernel for kernel in kernels if function_name(kernel.name) == name])
            found = [row_of(kernel, instance_name(kernel.name)) for kernel in instances]
            result += sorted(found, key=lambda row: -row.share)
    return result


def report(table: Sequence[SassRow], compiler: str) -> str:
    """The page."""
    heads = ("kernel", "architecture", "FFMA", "instructions", "share", "loads per FFMA", "registers", "stack bytes")
    lines = [page_head("Main loops beside CUTLASS", "python bench/sass_against_cutlass.py")]
    lines += [
        EXPLANATION,
        "",
        compiler,
        "",
        f"| {' | '.join(heads)} |",
        "|---|---|" + "---:|" * (len(heads) - 2),
    ]
    lines += [f"| {' | '.join(row.words())} |" for row in table]
    short = [row for row in table if row.is_short]
    goal = f"share >= {SHARE_GOAL}, at most {REGISTERS_GOAL} registers, no stack"
    verdict = (
        "all reach it"
        if not short
        else "short of it: " + ", ".join(f"{row.name} on {row.architecture}" for row in short)
    )
    return "\n".join([*lines, "", f"Goal of {' and '.join(WITH_A_GOAL)}: {goal}; {verdict}."])


def main() -> int:
    """Print the page; exit 1 when a kernel with a goal misses it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cutlass", type=Path, help="folder of CUTLASS's headers; default: the wheel's")
    arguments = parser.parse_args()
    try:
        headers = cutlass_headers(arguments.cutlass)
        with tempfile.TemporaryDirectory() as name:
            table = [row for each in ARCHITECTURES for row in rows(each, headers, Path(name))]
            version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    except ListingError as error:
        print(error, file=sys.stderr)
        return 2
    found = re.search(r"release \S+, V(\S+)", version)
    print(report(table, f"nvcc {found.group(1) if found else 'of unknown version'}, `{' '.join(FLAGS)}`."))
    return int(any(row.is_short for row in table))


if __name__ == "__main__":
    raise SystemExit(main())
