"""Candidate files that wrap one native kernel, with a known slow-down built in: the truth that benches test against."""

from __future__ import annotations

from pathlib import Path

WORDS = ("--batch", "8", "--stride", "2", "--threads", "1")
"""Of `profkit conv`: some 0.6 ms per call."""

# After each call it spins for a fixed share of the processor time that very call took, so the true ratio of a delayed
# kernel to an undelayed one is 1 / (1 + share), whatever the machine does meanwhile. By the wall clock, a delay that is
# preempted ends late, and one after a preempted call is too long: with calls of 2 to 6 ms on a busy machine delayed
# kernels took 1 to 20 % more than they should. Reading the thread's clock costs 0.2 us, which is 0.03 % of WORDS' call.
SOURCE = """
import time
import numpy as np
from profkit import _core

KEY = "conv2d/native/cpu/implicit_gemm"
SHARE = {share}


def prepare(spec, *inputs, threads):
    params = spec.params()
    output = np.empty(spec.output_shape(), spec.numpy_dtype)
    workspace = np.empty(_core.workspace_bytes(KEY, params, threads) + 64, np.uint8)
    workspace = workspace[-workspace.ctypes.data % 64 :]

    def call():
        begin = time.thread_time_ns()
        _core.run(KEY, params, inputs, output, workspace, threads)
        end = time.thread_time_ns()
        until = end + SHARE * (end - begin)
        while time.thread_time_ns() < until:
            pass
        return output

    return call
"""


def write_candidate(folder: Path, name: str, share: float = 0.0) -> str:
    """Write a candidate that takes (1 + share) times as long as the kernel; returns its path."""
    path = folder / f"{name}.py"
    path.write_text(SOURCE.format(share=share))
    return str(path)
