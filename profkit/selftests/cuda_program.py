"""What the selftest records on a CUDA device: `python -m profkit.selftests.cuda_program` does a known number of
everything, each in a separate range. It ends after LONGEST_S in any case."""

from __future__ import annotations

import signal
import sys

import numpy as np

import profkit
from profkit.frameworks.device_arrays import ORDINAL, cuda_module
from profkit.ops.matmul import MatMul

LONGEST_S = 60
LAUNCHES, HOLDS = 100, 5
"""Kernels: of a product that is one launch, and of the timer that holds a stream up."""
UPLOADS, DOWNLOADS, FILLS, COPY_BYTES = 7, 5, 3, 131_072
ALLOCATIONS, RELEASES, MEMORY_BYTES = 9, 4, 2_097_152
KEY = "matmul/native/cuda/naive"
GIVE_UP_AFTER_S = 10.0
LAUNCH_RANGE, HOLD_RANGE, MEMORY_RANGE = "selftest launches", "selftest holds", "selftest memory"
UPLOAD_RANGE, DOWNLOAD_RANGE, FILL_RANGE = "selftest uploads", "selftest downloads", "selftest fills"


def main() -> int:
    signal.alarm(LONGEST_S)
    cuda = cuda_module()
    cuda.use_device(ORDINAL)
    spec, size = MatMul(16, 16, 16), 4 * 16 * 16
    stream, memory = cuda.Stream(), [cuda.DeviceMemory(size) for _ in range(3)]
    for part in memory:
        part.upload(np.zeros(size, np.uint8))
    call = cuda.bind(KEY, spec.params(), memory[:2], memory[2], None, stream.handle)
    timer, data, host = (
        cuda.DeviceTimer(stream.handle, GIVE_UP_AFTER_S),
        cuda.DeviceMemory(COPY_BYTES),
        np.zeros(COPY_BYTES, np.uint8),
    )
    call()  # the first launch loads the module
    cuda.synchronize(stream.handle)
    with profkit.scope(LAUNCH_RANGE):
        for _ in range(LAUNCHES):
            call()
        cuda.synchronize(stream.handle)
    with profkit.scope(HOLD_RANGE):
        for _ in range(HOLDS):
            timer.hold()
            timer.begin()
            timer.end()
            timer.release()
            timer.finish()
    with profkit.scope(UPLOAD_RANGE):
        for _ in range(UPLOADS):
            data.upload(host)
    with profkit.scope(DOWNLOAD_RANGE):
        for _ in range(DOWNLOADS):
            data.download(host)
    with profkit.scope(FILL_RANGE):
        for _ in range(FILLS):
            data.fill(0)
        cuda.synchronize(0)
    with profkit.scope(MEMORY_RANGE):
        held = [cuda.DeviceMemory(MEMORY_BYTES) for _ in range(ALLOCATIONS)]
        del held[:RELEASES]
    sys.stdout.write("{}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
