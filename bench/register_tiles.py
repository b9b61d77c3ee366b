"""Which shape of the register tile keeps the FMA units busiest: the kernels' own tile, compiled in several shapes.

Run: python bench/register_tiles.py > docs/bench/register_tiles.md   (some seconds, and as many to compile)
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from rounds import interleaved

from profkit import _core
from profkit.backends.machine import cpu_model

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bench" / "native" / "register_tile.cpp"
FLAGS = {"avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"]}
BYTES = {"avx2": 32, "avx512": 64}
SHAPES = {
    "avx2": ((6, 2), (4, 3), (3, 4), (12, 1)),
    "avx512": ((6, 4), (8, 3), (9, 3), (14, 2), (12, 2)),
}
"""Rows by vectors; the first of each is the kernels'."""
PANELS_BYTES = 24 << 10
"""Both panels together: half of a usual first-level cache."""
FLOPS_PER_SAMPLE, FMA_ITERATIONS = 3e8, 200_000


def main() -> int:
    """Print a table per instruction set that this machine runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    arguments = parser.parse_args()
    print("# Shapes of the register tile\n")
    print(f"`python bench/register_tiles.py`. {cpu_model()}, one thread, float32. The tile of cpu_micro_kernel.inl on")
    print("panels in the first-level cache, in turns with a loop of FMAs on registers. *of FMA loop*: median over the")
    print("rounds of the tile's rate / the loop's (least to largest). A step of the reduction loads as many vectors of")
    print("B as the tile is wide and broadcasts as many elements of A as it is high.\n")
    for isa in FLAGS:
        if isa in _core.cpu_features()["simd_supported"]:
            with tempfile.TemporaryDirectory() as folder:
                print_table(isa, Path(folder), arguments.rounds)
    return 0


def print_table(isa: str, folder: Path, rounds: int) -> None:
    """Measure the shapes of one instruction set."""
    cases = {shape: share_of_peak(isa, shape, folder) for shape in SHAPES[isa]}
    found = interleaved({f"{isa} {rows} x {vectors}": case for (rows, vectors), case in cases.items()}, rounds)
    print(f"## {isa}\n\n| rows x vectors | FMAs per step | loads per step | loads per FMA | of FMA loop |")
    print("|---|---|---|---|---|")
    for (rows, vectors), measured in zip(cases, found.values()):
        fmas, loads = rows * vectors, rows + vectors
        print(f"| {rows} x {vectors} | {fmas} | {loads} | {loads / fmas:.2f} | {measured.spread('.2f')} |")
    print()


def share_of_peak(isa: str, shape: tuple[int, int], folder: Path) -> Callable[[], float]:
    """A function that times the tile and the FMA loop, one right after the other."""
    rows, vectors = shape
    loaded = compiled(SOURCE, isa, shape, folder)
    tile, loop = loaded.tile_gflops, loaded.fma_gflops
    tile.argtypes, loop.argtypes = (ctypes.c_int64, ctypes.c_int64), (ctypes.c_int64,)
    tile.restype = loop.restype = ctypes.c_double
    columns = vectors * BYTES[isa] // 4
    steps = PANELS_BYTES // (4 * (rows + columns))
    repetitions = int(FLOPS_PER_SAMPLE / (2 * rows * columns * steps))
    return lambda: tile(steps, repetitions) / loop(FMA_ITERATIONS)


def compiled(source: Path, isa: str, shape: tuple[int, int], folder: Path) -> ctypes.CDLL:
    """A library of kernel code for one instruction set, with a register tile of this shape."""
    rows, vectors = shape
    library = folder / f"{source.stem}_{rows}x{vectors}.so"
    defines = {"ISA": isa, "VECTOR_BYTES": BYTES[isa], "TILE_ROWS": rows, "TILE_VECTORS": vectors, "ACCUMULATORS": 12}
    if isa == "avx512":
        defines["ACCUMULATORS"] = 24
    flags = [f"-DPROFKIT_{name}={value}" for name, value in defines.items()]
    options = ["-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", f"-I{ROOT / 'csrc'}", *FLAGS[isa]]
    subprocess.run(["g++", *options, *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


if __name__ == "__main__":
    raise SystemExit(main())
