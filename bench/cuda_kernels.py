"""Every CUDA kernel's proof: what the compiler made of it for each architecture, and what ran without a GPU.

Run: python bench/cuda_kernels.py [--build FOLDER] > docs/measured/cuda_kernels.md
Needs profkit built for all architectures (`pip install -e . -C cmake.define.PROFKIT_ALL=ON` with nvcc; FOLDER is its
build folder), the test extra, and cuobjdump (see bench/sass.py). Runs the emulated tests first: a report is made of
what passed only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from listings import ListingError, demangled
from measured_page import ROOT, page_head
from sass import Mix, SassKernel, function_name, kernels_in, main_loop, mix

OPERATORS = ("matmul", "conv2d", "pool2d", "lrn", "bias_relu", "softmax")
ORDERS = ("ascending", "descending", "random")


@dataclass
class Proof:
    """What the tests ran of one kernel: distinct problems by kind (and, emulated, by thread order)."""

    problems: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def emulated(self) -> int:
        """Problems that ran in every order."""
        return len(set.intersection(*(self.problems[f"plain {order}"] for order in ORDERS)))

    def count(self, kind: str) -> int:
        """Problems of a kind in any order."""
        named = [found for name, found in self.problems.items() if name.split()[0] == kind]
        return len(set().union(*named)) if named else 0


Launch = tuple[int, int]
"""How the host code started a kernel on the double: its threads and dynamic bytes."""


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture, with the launches that were seen of it."""

    kernel: SassKernel
    loop: Mix
    launches: frozenset[Launch]

    @property
    def capability(self) -> int:
        return int(self.kernel.architecture.removeprefix("sm_").rstrip("af"))


@dataclass
class Proofs:
    """What a run of the tests left."""

    proofs: dict[str, Proof] = field(default_factory=lambda: defaultdict(Proof))
    launches: dict[str, set[Launch]] = field(default_factory=lambda: defaultdict(set))
    """By mangled name."""
    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Functions that a row's calls started, by key."""


def require_all(build: Path) -> None:
    """The report is of every architecture, and of a build that a register spill would have ended."""
    cache = build / "CMakeCache.txt"
    lines = cache.read_text(encoding="utf-8").splitlines() if cache.exists() else []
    if not {"PROFKIT_ALL:BOOL=ON", "PROFKIT_CUDA_ARCHITECTURES:STRING="} <= set(lines):
        raise ListingError(f"{build} is not of all architectures: pip install -e . -C cmake.define.PROFKIT_ALL=ON")


def run_tests(path: Path) -> None:
    """All of tests/cuda must pass; what they ran is in the file."""
    tests = ROOT / "tests" / "cuda"
    command = [sys.executable, "-m", "pytest", "-q", "--full", str(tests)]
    environment = {**os.environ, "PROFKIT_PROOF": str(path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise ListingError("a test failed: there is no report of what is not right")


def read_proofs(path: Path) -> Proofs:
    """The lines that tests/cuda/emulation.py wrote."""
    found = Proofs()
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        for key, spec in line["ran"]:
            found.proofs[key].problems[f"{line['kind']} {line.get('order', '')}"].add(spec)
        for launch in line.get("launches", ()):
            threads = launch["block"][0] * launch["block"][1] * launch["block"][2]
            found.launches[launch["kernel"]].add((threads, launch["shared_bytes"]))
        for key, kernels in line.get("kernels", {}).items():
            found.functions[key].update(function_name(name) for name in demangled(kernels).values())
    return found


def compiled_kernels(build: Path, launches: dict[str, set[Launch]]) -> list[Compiled]:
    """All kernels of the objects that the module is linked of."""
    objects = sorted(build.glob("csrc/CMakeFiles/profkit_cuda.dir/kernels/**/*.cu.o"))
    if not objects:
        raise ListingError(f"there are no CUDA objects in {build}; build profkit where nvcc is on the PATH")
    return [
        Compiled(kernel, mix(main_loop(kernel.instructions)), frozenset(launches.get(kernel.mangled, ())))
        for path in objects
        for kernel in kernels_in(path)
    ]


def occupancies(kernels: Iterable[Compiled], build: Path, folder: Path) -> dict[tuple[str, str], list[float]]:
    """(architecture, mangled name) -> percent of a multiprocessor's warps, one per launch that was seen."""
    program = folder / "occupancy"
    source = Path(__file__).parent / "programs" / "occupancy.cpp"
    command = ["g++", "-std=c++17", "-O1", "-isystem", toolkit_headers(build), str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    places, lines = [], []
    for each in kernels:
        for threads, dynamic_bytes in sorted(each.launches):
            places.append((each.kernel.architecture, each.kernel.mangled))
            sizes = (each.kernel.registers, each.kernel.shared_bytes, dynamic_bytes, threads)
            lines.append(" ".join(map(str, (each.capability, *sizes))))
    done = subprocess.run([str(program)], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ListingError(done.stderr.strip())
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for place, text in zip(places, done.stdout.split(), strict=True):
        found[place].append(float(text))
    return found


def toolkit_headers(build: Path) -> str:
    """Where cuda_occupancy.h is, as CMake found it."""
    for path in build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        for line in path.read_text().splitlines():
            if line.startswith("set(CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES"):
                return line.split('"')[1].split(";")[0]
    raise ListingError(f"{build} does not say where CUDA's headers are")


def proof_table(keys: Sequence[str], proofs: dict[str, Proof], compiled: dict[str, list[Compiled]]) -> list[str]:
    """One line per registry row."""
    lines = [
        "| kernel | architectures, variants, spills | emulated | raced: address+undefined, thread | launched |",
        "|---|---|---|---|---|",
    ]
    for key in keys:
        parts, proof = compiled[key], proofs.get(key, Proof())
        architectures = {part.kernel.architecture for part in parts}
        variants = {part.kernel.mangled for part in parts}
        spilling = {part.kernel.mangled for part in parts if part.kernel.stack_bytes}
        sizes = f"{len(architectures)}, {len(variants)}, {len(spilling) or 'none'}"
        raced = f"{proof.count('address+undefined')}, {proof.count('thread')}"
        lines.append(f"| `{short(key)}` | {sizes} | {proof.emulated} | {raced} | {proof.count('launched')} |")
    return lines


def short(key: str) -> str:
    """`matmul naive` for matmul/native/cuda/naive."""
    return f"{key.split('/')[0]} {key.rpartition('/')[2]}"


def architecture_table(
    keys: Sequence[str], compiled: dict[str, list[Compiled]], occupancy: dict[tuple[str, str], list[float]]
) -> list[str]:
    """One line per kernel and architecture."""
    heading = (
        "| kernel | for | variants | registers | shared KiB | occupancy % | main loop of | instructions | products"
        " | share | loads per product |"
    )
    lines = [heading, "|---|---|---:|---:|---:|---:|---|---:|---:|---:|---:|"]
    for key in keys:
        for capability in sorted({part.capability for part in compiled[key]}):
            parts = [part for part in compiled[key] if part.capability == capability]
            lines.append(f"| `{short(key)}` | sm_{capability} | " + " | ".join(_cells(parts, occupancy)) + " |")
    return lines


def _cells(parts: Sequence[Compiled], occupancy: dict[tuple[str, str], list[float]]) -> list[str]:
    launched = [part for part in parts if part.launches]
    shared = [part.kernel.shared_bytes + dynamic_bytes for part in launched for _, dynamic_bytes in part.launches]
    occupied = [value for part in launched for value in occupancy[part.kernel.architecture, part.kernel.mangled]]
    # That with most products, and of equal ones the tightest; without products the longest loop.
    first = max(parts, key=lambda part: (part.loop.products, part.loop.product_share, part.loop.instructions))
    loop = first.loop
    return [
        str(len(parts)),
        _range([part.kernel.registers for part in parts]),
        _range([round(size / 1024, 1) for size in shared]),
        _range([round(value) for value in occupied]),
        f"`{variant_name(first.kernel.name)}`" if loop.instructions else "no loop",
        str(loop.instructions or ""),
        str(loop.products or ""),
        _range([round(part.loop.product_share, 2) for part in parts if part.loop.products]),
        f"{loop.loads_per_product:.2f}" if loop.products else "",
    ]


def variant_name(name: str) -> str:
    """The function with its template arguments, without namespaces, casts and parameters, short enough for a table."""
    depth, end = 0, len(name)
    for place, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            end = place
            break
    head = re.sub(r"\((?:profkit::cuda::)?\w+\)", "", name[:end].removeprefix("void ")).replace("profkit::cuda::", "")
    return head if len(head) <= 60 else head[:57] + "..."


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def document(sections: Sequence[str]) -> str:
    """The page."""
    return "\n".join(sections) + "\n"


INTRODUCTION = """\
There was no GPU: nothing here was run on one.

- **compiled**: by nvcc for {architectures}, with PTX of the last one;
  the build of CI ends at a register spill.
- **emulated**: the same source ran on the host SIMT layer (`tests/cuda/native/simt.h`: fibers for threads, shared
  memory full of NaN, barriers, shuffles, masks, asynchronous copies, mma at fragment level) in three thread orders,
  against the float64 reference. The number is of distinct problems that ran in all three.
- **raced**: the same under AddressSanitizer with UndefinedBehaviourSanitizer, and under ThreadSanitizer, which sees
  every pair of accesses that no barrier orders.
- **launched**: host code as nvcc compiled it, on a double of the CUDA runtime that checks the geometry and runs the
  emulated kernel with the arguments that it was given.

Seeded mutants (`tests/cuda/test_seeded_mutants.py`) show that these checks catch what they are for.
"""

EXPLANATION = """## What the compiler made of them

A kernel has variants: template arguments for types, layouts and tile sizes. Registers are per thread; shared memory
(static and dynamic) and occupancy (`cuda_occupancy.h`: warps that a multiprocessor holds of those that it could) are
of the launches that tests made. The main loop is the innermost one with most products (FFMA, FFMA2 or HMMA), in the
variant that has most of them and is tightest; `share` is that of products among the instructions of the main loop, from
the lowest to the highest of all variants. Kernels without products move data: their longest loop is counted. A row
that starts kernels of another one (`split_k` those of `double_buffered`) has them too.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="build folder [the last one in build/]")
    parser.add_argument(
        "--proof", type=Path, help="of a run of all tests that passed, with PROFKIT_PROOF=FILE [the tests are run]"
    )
    options = parser.parse_args()
    build = options.build or max(ROOT.glob("build/*"), default=ROOT / "build")
    try:
        from profkit import _cuda
    except ImportError as error:
        print(f"profkit was built without CUDA: {error}", file=sys.stderr)
        return 1
    keys = [key for op in OPERATORS for key in _cuda.kernels(op)]
    try:
        require_all(build)
        with tempfile.TemporaryDirectory() as name:
            proof = options.proof or Path(name) / "proof"
            if not options.proof:
                run_tests(proof)
            found = read_proofs(proof)
            everything = compiled_kernels(build, found.launches)
            occupancy = occupancies(everything, build, Path(name))
    except ListingError as error:
        print(error, file=sys.stderr)
        return 1
    compiled = {
        key: [each for each in everything if function_name(each.kernel.name) in found.functions[key]] for key in keys
    }
    names = sorted({each.capability for each in everything})
    text = document(
        [
            page_head("CUDA kernels and how each was proven", "python bench/cuda_kernels.py"),
            INTRODUCTION.format(architectures=", ".join(f"sm_{name}" for name in names)),
            *proof_table(keys, found.proofs, compiled),
            "",
            EXPLANATION,
            *architecture_table(keys, compiled, occupancy),
        ]
    )
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
