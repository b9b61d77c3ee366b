"""Where the time of the native matmul goes on one thread: its own loops without packing, and without results.

Run: python bench/matmul_parts.py > docs/bench/matmul_parts.md   (a minute or two)
"""

from __future__ import annotations

import argparse
import ctypes
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from register_tiles import FMA_ITERATIONS, ROOT, SHAPES, compiled
from rounds import interleaved

from profkit import _core
from profkit.backends.machine import cpu_model

SOURCE = ROOT / "bench" / "native" / "matmul_parts.cpp"
PIECES = ("products, results in the first-level cache", "and results where they belong", "and B packed: the whole call")
SQUARES = (512, 1024, 2048)
COLUMNS = {
    1000: "begin anywhere in a line of memory",
    1008: "are whole lines",
    1024: "are 4 KiB, and share sets of the caches",
}
"""Widths of B for 32 rows, by what its rows do."""
Shape = tuple[int, int, int]


def main() -> int:
    """Print both tables for the instruction set in use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    isa = _core.cpu_features()["simd_active"]
    if isa not in SHAPES:
        parser.error(f"this measures {' and '.join(SHAPES)} code; the active instruction set is {isa}")
    print("# Where the time of the native matmul goes\n")
    print(f"`python bench/matmul_parts.py`. {cpu_model()}, {isa}, one thread, float32. Shares of the rate of a loop of")
    print("FMAs on registers that is timed right after each call: median over the rounds (least to largest).\n")
    with tempfile.TemporaryDirectory() as folder:
        share = share_of_peak(isa, Path(folder))
        cases = {f"{n}: {piece}": partial(share, i, (n, n, n)) for n in SQUARES for i, piece in enumerate(PIECES)}
        cases |= {f"32 x {n} x 1024": partial(share, len(PIECES) - 1, (32, n, 1024)) for n in COLUMNS}
        found = {name: measured.spread(".2f") for name, measured in interleaved(cases, rounds).items()}
    print("## Squares: what packing and results cost\n")
    print(f"| what runs | {' | '.join(f'{n}^3' for n in SQUARES)} |\n|---|{'---|' * len(SQUARES)}")
    for piece in PIECES:
        print(f"| {piece} | {' | '.join(found[f'{n}: {piece}'] for n in SQUARES)} |")
    print("\n## 32 rows, B where it lies: what the length of its rows costs\n")
    print("| shape | rows of B | of FMA loop |\n|---|---|---|")
    for n, words in COLUMNS.items():
        print(f"| 32 x {n} x 1024 | {words} | {found[f'32 x {n} x 1024']} |")
    return 0


def share_of_peak(isa: str, folder: Path) -> Callable[[int, Shape], float]:
    """A function that times a product up to one of its pieces, and the FMA loop right after it."""
    features = _core.cpu_features()
    caches = (features["l1d_bytes"], features["l2_bytes"], features["l3_bytes"])
    library = compiled(SOURCE, isa, SHAPES[isa][0], folder)
    product, loop = library.piece_gflops, library.fma_gflops
    product.argtypes, loop.argtypes = (ctypes.c_int, *[ctypes.c_int64] * 6), (ctypes.c_int64,)
    product.restype = loop.restype = ctypes.c_double
    return lambda piece, shape: product(piece, *shape, *caches) / loop(FMA_ITERATIONS)


if __name__ == "__main__":
    raise SystemExit(main())
