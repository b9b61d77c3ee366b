"""What the selftest records: `python -m profkit.selftests.host_program` does a known number of everything.

Prints what it did as JSON. It ends after LONGEST_S in any case.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import profkit

LONGEST_S = 60
OUTER, INNER, MARKS, OF_THREAD, OF_CHILD, OF_NVTX = 40, 3, 25, 30, 20, 15
"""Ranges, ranges inside each of them, marks, ranges of a thread, of a child process, and through NVTX."""
ALLOCATIONS, RELEASED, BYTES = 11, 6, 131_101
"""Calls of malloc, of free, and the size of each; nothing else allocates exactly this size."""
ZEROED, ZEROED_BYTES = 5, 70_001
MAPPINGS, MAPPED_BYTES = 3, 1_052_672
CLOCK_READINGS, CLOCK_S = 5, 0.01
CHILD = "child"


def main(words: list[str]) -> int:
    signal.alarm(LONGEST_S)
    if words == [CHILD]:
        _open_ranges("selftest child", OF_CHILD)
        return 0
    clocks = [_read_clocks() for _ in range(CLOCK_READINGS)]
    for _ in range(OUTER):
        with profkit.scope("selftest outer"):
            _open_ranges("selftest inner", INNER)
    for number in range(MARKS):
        profkit.mark("selftest mark", payload=number)
    thread = threading.Thread(target=_open_ranges, args=("selftest thread", OF_THREAD))
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-m", "profkit.selftests.host_program", CHILD], check=True)
    has_nvtx = _open_nvtx_ranges()
    _allocate()
    sys.stdout.write(json.dumps({"clocks": clocks, "has_nvtx": has_nvtx}) + "\n")
    return 0


def _open_ranges(name: str, count: int) -> None:
    for _ in range(count):
        with profkit.scope(name):
            pass


def _read_clocks() -> tuple[int, int]:
    """A range by the wall clock: read just inside and just outside of it."""
    before = time.perf_counter_ns()
    with profkit.scope("selftest clock"):
        begin = time.perf_counter_ns()
        time.sleep(CLOCK_S)
        inside = time.perf_counter_ns() - begin
    return inside, time.perf_counter_ns() - before


def _open_nvtx_ranges() -> bool:
    try:
        import nvtx
    except ImportError:
        return False
    for _ in range(OF_NVTX):
        with nvtx.annotate("selftest nvtx"):
            pass
    return True


def _allocate() -> None:
    """By the C library itself: Python's own allocations are not countable."""
    library: Any = ctypes.CDLL(None)
    for name in ("malloc", "calloc"):
        getattr(library, name).restype = ctypes.c_void_p
    with profkit.scope("selftest allocations"):
        held = [library.malloc(ctypes.c_size_t(BYTES)) for _ in range(ALLOCATIONS)]
        held += [library.calloc(ctypes.c_size_t(1), ctypes.c_size_t(ZEROED_BYTES)) for _ in range(ZEROED)]
        for address in held[:RELEASED]:
            library.free(ctypes.c_void_p(address))
    with profkit.scope("selftest mappings"):
        mapped = [mmap.mmap(-1, MAPPED_BYTES) for _ in range(MAPPINGS)]
        for memory in mapped:
            memory.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
