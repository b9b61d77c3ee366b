"""Entries of the capture file about GPUs, made by hand as docs/capture-format.md tells them."""

from __future__ import annotations

import struct

from tests.capture.builders import CaptureBuilder

KERNEL, COPY, SET, CALL, CORRELATION, MEMORY, OVERHEAD, DEVICE, COUNTS, CLOCK, POOL = range(1, 12)


def entry(kind: int, body: bytes) -> bytes:
    """Any entry, with its header."""
    return struct.pack("<II", kind, 8 + len(body)) + body


def work(start: int, end: int, correlation: int, device: int = 0, stream: int = 7, node: int = 0) -> bytes:
    """What kernels, copies and sets have in common; context 1."""
    return struct.pack("<QQQIIIIII", start, end, node, 3 if node else 0, correlation, device, 1, stream, 0)


def kernel(name: int, start: int, end: int, correlation: int, *, queued: int = 0, **where: int) -> bytes:
    """A kernel of 4 x 1 x 1 blocks with 64 threads."""
    body = struct.pack("<QIIiiiiiiii", queued, name, 40, 4, 1, 1, 64, 1, 1, 128, 256)
    return entry(KERNEL, work(start, end, correlation, **where) + body)


def copy(start: int, end: int, correlation: int, size: int, kind: int = 1, source: int = 1, target: int = 3) -> bytes:
    """A copy from pageable memory to the device."""
    body = struct.pack("<QBBBBIII", size, kind, source, target, 0, 2**32 - 1, 2**32 - 1, 0)
    return entry(COPY, work(start, end, correlation) + body)


def memset(start: int, end: int, correlation: int, size: int) -> bytes:
    return entry(SET, work(start, end, correlation) + struct.pack("<QIHH", size, 0, 3, 0))


def call(name: int, start: int, end: int, correlation: int, thread: int = 5000, result: int = 0) -> bytes:
    return entry(CALL, struct.pack("<QQIIIIII", start, end, correlation, name, thread, result, 0, 211))


def correlation(token: int, number: int) -> bytes:
    """The call was made in the range with this token."""
    return entry(CORRELATION, struct.pack("<QII", token, number, 0))


def memory(time: int, address: int, size: int, number: int, is_release: bool = False, pool: int = 0) -> bytes:
    return entry(MEMORY, struct.pack("<QQQQIIIIII", time, address, size, pool, number, 0, 1, 7, is_release, 3))


def pool(time: int, address: int, reserved: int, used: int, operation: int = 0) -> bytes:
    return entry(POOL, struct.pack("<6Q4I", time, address, reserved, used, 0, 0, 5, 0, operation, 0))


def overhead(kind: int, start: int, end: int) -> bytes:
    return entry(OVERHEAD, struct.pack("<QQII", start, end, kind, 0))


def device(name: int, number: int = 0) -> bytes:
    return entry(DEVICE, struct.pack("<QQ10I", 40 << 30, 1_555_000_000, number, name, 8, 0, 108, 64, 9, 8, 7, 0))


def counts(*values: int) -> bytes:
    """Dropped by CUPTI, too slow, unknown, cut, unfinished."""
    return entry(COUNTS, struct.pack("<5Q", *values))


def clock(device_ns: int, monotonic_ns: int, uncertainty_ns: int = 20) -> bytes:
    return entry(CLOCK, struct.pack("<Qqq", device_ns, monotonic_ns, uncertainty_ns))


def every_entry(builder: CaptureBuilder, token: int) -> list[bytes]:
    """One of each kind; CUPTI's clock is CLOCK_MONOTONIC, which begins at 1,000,000 in built captures."""
    launch, gemm = builder.string("cudaLaunchKernel"), builder.string("gemm")
    return [
        clock(1_000_000, 1_000_000),
        device(builder.string("NVIDIA Double")),
        kernel(gemm, 1_000_050, 1_000_090, 5, node=9),
        correlation(token, 5),
        call(launch, 1_000_020, 1_000_030, 5),
        copy(1_000_100, 1_000_120, 6, 4096),
        memset(1_000_130, 1_000_140, 6, 64),
        call(launch, 1_000_095, 1_000_097, 6, result=2),
        memory(1_000_040, 0x7000, 512, 5),
        memory(1_000_150, 0x7000, 512, 6, is_release=True, pool=0x1234),
        pool(1_000_035, 0x1234, 2048, 0, operation=1),
        overhead(1 << 16, 1_000_160, 1_000_170),
        counts(1, 2, 3, 4, 5),
    ]
