"""CUDA kernels in Python for the numba_cuda adapter; importing this file imports numba.cuda.

`cuda` must be a global of the file that holds the kernels: Numba's simulator replaces it there.
"""

from __future__ import annotations

import importlib
from typing import Any

cuda: Any = importlib.import_module("numba.cuda")
TILE = 16
"""Side of a matmul tile: 256 threads per block, two tiles of at most 2 KiB each in shared memory."""


def convolution() -> Any:
    """One thread per output element, grid-stride; bound by reads of x and w through the caches."""

    @cuda.jit  # type: ignore[untyped-decorator,unused-ignore]
    def kernel(x, w, b, y, geometry):  # type: ignore[no-untyped-def]
        # geometry: stride, pad (top, left), dilation, groups, has_bias, relu
        stride_h, stride_w, top, left, dilation_h, dilation_w, groups, has_bias, relu = geometry
        channels, k_count, rows, columns = w.shape[1], y.shape[1], y.shape[2], y.shape[3]
        for index in range(cuda.grid(1), y.size, cuda.gridsize(1)):
            j = index % columns
            i = index // columns % rows
            k = index // (columns * rows) % k_count
            n = index // (columns * rows * k_count)
            first = k // (k_count // groups) * channels
            total = x[0, 0, 0, 0] * 0
            for c in range(channels):
                for r in range(w.shape[2]):
                    row = i * stride_h + r * dilation_h - top
                    if row < 0 or row >= x.shape[2]:
                        continue
                    for s in range(w.shape[3]):
                        column = j * stride_w + s * dilation_w - left
                        if 0 <= column < x.shape[3]:
                            total += x[n, first + c, row, column] * w[k, c, r, s]
            if has_bias:
                total += b[k]
            y[n, k, i, j] = total if not relu or total > 0 else total * 0

    return kernel


def naive_product() -> Any:
    """One thread per element of c; neighbours in a warp read neighbours of b, and the same element of a."""

    @cuda.jit  # type: ignore[untyped-decorator,unused-ignore]
    def kernel(a, b, bias, c, has_bias, relu):  # type: ignore[no-untyped-def]
        batch = cuda.blockIdx.z
        row = cuda.blockIdx.y * TILE + cuda.threadIdx.y
        column = cuda.blockIdx.x * TILE + cuda.threadIdx.x
        if row < c.shape[1] and column < c.shape[2]:
            total = a[0, 0, 0] * 0
            for k in range(a.shape[2]):
                total += a[batch, row, k] * b[batch, k, column]
            total = total + bias[column] if has_bias else total
            c[batch, row, column] = total if not relu or total > 0 else total * 0

    return kernel


def product(element: Any) -> Any:
    """A block computes a TILE x TILE part of c, one element per thread, from tiles of a and b in shared memory."""

    @cuda.jit  # type: ignore[untyped-decorator,unused-ignore]
    def kernel(a, b, bias, c, has_bias, relu):  # type: ignore[no-untyped-def]
        tile_a = cuda.shared.array((TILE, TILE), element)
        tile_b = cuda.shared.array((TILE, TILE), element)
        tx, ty, batch = cuda.threadIdx.x, cuda.threadIdx.y, cuda.blockIdx.z
        row = cuda.blockIdx.y * TILE + ty
        column = cuda.blockIdx.x * TILE + tx
        total = a[0, 0, 0] * 0
        for start in range(0, a.shape[2], TILE):
            inside_a = row < a.shape[1] and start + tx < a.shape[2]
            inside_b = column < b.shape[2] and start + ty < b.shape[1]
            tile_a[ty, tx] = a[batch, row, start + tx] if inside_a else 0
            tile_b[ty, tx] = b[batch, start + ty, column] if inside_b else 0
            cuda.syncthreads()
            for k in range(TILE):
                total += tile_a[ty, k] * tile_b[k, tx]
            cuda.syncthreads()
        if row < c.shape[1] and column < c.shape[2]:
            total = total + bias[column] if has_bias else total
            c[batch, row, column] = total if not relu or total > 0 else total * 0

    return kernel
