"""A program that takes a core at random times, as others on a shared machine do.

Run: python bench/neighbour.py SEED   (until its standard input ends, so that it never outlives what started it)
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np

TAKES_S, RESTS_S = (0.05, 3.0), (0.05, 6.0)
WRITTEN_BYTES = 24_000_000


def main(argv: list[str]) -> int:
    """Take a random core for a random time, rest, and so on."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    choose = random.Random(int(argv[0]))
    cores = sorted(os.sched_getaffinity(0))
    memory = np.zeros(WRITTEN_BYTES // 8)
    while True:
        os.sched_setaffinity(0, {choose.choice(cores)})
        until_s = time.monotonic() + choose.uniform(*TAKES_S)
        while time.monotonic() < until_s:
            memory += 1.0
        time.sleep(choose.uniform(*RESTS_S))


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


@contextlib.contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """One that runs meanwhile."""
    with subprocess.Popen([sys.executable, __file__, str(seed)], stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
