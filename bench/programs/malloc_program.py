"""One case of bench/tracer_overhead.py: `malloc_program.py LIBRARY BYTES PAIRS` prints the nanoseconds of one malloc +
free made by the compiled malloc_pairs.c. memray and profkit trace this same program."""

from __future__ import annotations

import ctypes
import statistics
import sys

BATCHES = 50


def main() -> int:
    library, size, pairs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    run_pairs = ctypes.CDLL(library).run_pairs
    run_pairs.restype = ctypes.c_double
    run_pairs.argtypes = [ctypes.c_long, ctypes.c_long]
    run_pairs(size, pairs // 10)
    print(statistics.median(run_pairs(size, pairs // BATCHES) for _ in range(BATCHES)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
