"""Matrix product and convolution in Numba; arrays in, output filled. Each is compiled by its first call.

Convolutions take images flat, described by seven numbers (channels of a group, height, width, and the steps from
one image, channel, row and column to the next), so that one compiled kernel serves both layouts. Work is cut into
one chunk per thread, with buffers indexed by chunk: results are the same for the same number of threads.
"""

from __future__ import annotations

from numba import prange

from profkit.frameworks.numba.compile import Array, Numbers, inner, parallel

# A block of 4 rows of c and 4 rows of b, each this long, stays in the first-level cache.
COLUMN_BLOCK = 512
DEPTH_BLOCK = 128


@inner
def add_product(a: Array, b: Array, c: Array) -> None:
    """c += a b for contiguous matrices: 4x4 multiply-adds per loaded element of c, the long index innermost."""
    m, depth, n = a.shape[0], a.shape[1], b.shape[1]
    for j0 in range(0, n, COLUMN_BLOCK):
        j1 = min(j0 + COLUMN_BLOCK, n)
        for k0 in range(0, depth, DEPTH_BLOCK):
            k1 = min(k0 + DEPTH_BLOCK, depth)
            k4 = k0 + (k1 - k0) // 4 * 4
            for i in range(0, m // 4 * 4, 4):
                c0, c1, c2, c3 = c[i, j0:j1], c[i + 1, j0:j1], c[i + 2, j0:j1], c[i + 3, j0:j1]
                for k in range(k0, k4, 4):
                    b0, b1, b2, b3 = b[k, j0:j1], b[k + 1, j0:j1], b[k + 2, j0:j1], b[k + 3, j0:j1]
                    a00, a01, a02, a03 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
                    a10, a11, a12, a13 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
                    a20, a21, a22, a23 = a[i + 2, k], a[i + 2, k + 1], a[i + 2, k + 2], a[i + 2, k + 3]
                    a30, a31, a32, a33 = a[i + 3, k], a[i + 3, k + 1], a[i + 3, k + 2], a[i + 3, k + 3]
                    for j in range(j1 - j0):
                        v0, v1, v2, v3 = b0[j], b1[j], b2[j], b3[j]
                        c0[j] += a00 * v0 + a01 * v1 + a02 * v2 + a03 * v3
                        c1[j] += a10 * v0 + a11 * v1 + a12 * v2 + a13 * v3
                        c2[j] += a20 * v0 + a21 * v1 + a22 * v2 + a23 * v3
                        c3[j] += a30 * v0 + a31 * v1 + a32 * v2 + a33 * v3
            # What does not fill a block of 4: the last rows at all depths, then all other rows at the last depths.
            for i in range(m):
                for k in range(k4 if i < m // 4 * 4 else k0, k1):
                    value = a[i, k]
                    for j in range(j0, j1):
                        c[i, j] += value * b[k, j]


@inner
def matmul_rows(a: Array, b: Array, bias: Array, relu: bool, c: Array, first: int, last: int) -> None:
    """Rows first to last of the whole batch, counted through all its matrices."""
    m = c.shape[1]
    while first < last:
        item, row = first // m, first % m
        rows = min(m - row, last - first)
        part = c[item, row : row + rows]
        for i in range(rows):
            for j in range(c.shape[2]):
                part[i, j] = bias[j]
        add_product(a[item, row : row + rows], b[item], part)
        if relu:
            for i in range(rows):
                for j in range(c.shape[2]):
                    part[i, j] = max(part[i, j], 0)
        first += rows


@parallel
def matmul(a: Array, b: Array, bias: Array, relu: bool, c: Array, chunks: int) -> None:
    """c[batch] = a b + bias, then ReLU if requested; every chunk owns a range of rows."""
    rows = c.shape[0] * c.shape[1]
    for chunk in prange(chunks):
        matmul_rows(a, b, bias, relu, c, rows * chunk // chunks, rows * (chunk + 1) // chunks)


@inner
def gather(x: Array, base: int, window: Numbers, image: Numbers, columns: Array) -> None:
    """columns[c r s, i j] = what filter tap (c, r, s) meets at output (i, j) of the image that starts at base."""
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w = window
    channels, height, width, _, step_c, step_h, step_w = image
    row = 0
    for c in range(channels):
        for r in range(kernel_h):
            for s in range(kernel_w):
                column = columns[row]
                shift = s * dilation_w - left
                first = min(max(0, -(shift // stride_w)), out_w)
                last = max(first, min(out_w, (width - 1 - shift) // stride_w + 1))
                for i in range(out_h):
                    h = i * stride_h + r * dilation_h - top
                    start = i * out_w
                    if h < 0 or h >= height:
                        column[start : start + out_w] = 0.0
                        continue
                    source = base + c * step_c + h * step_h + shift * step_w
                    column[start : start + first] = 0.0
                    for j in range(first, last):
                        column[start + j] = x[source + j * stride_w * step_w]
                    column[start + last : start + out_w] = 0.0
                row += 1


@inner
def scatter(columns: Array, window: Numbers, image: Numbers, base: int, x: Array) -> None:
    """The transpose of gather: every column element is added to the place that it came from."""
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w = window
    channels, height, width, _, step_c, step_h, step_w = image
    row = 0
    for c in range(channels):
        for r in range(kernel_h):
            for s in range(kernel_w):
                column = columns[row]
                shift = s * dilation_w - left
                first = max(0, -(shift // stride_w))
                last = min(out_w, (width - 1 - shift) // stride_w + 1)
                for i in range(out_h):
                    h = i * stride_h + r * dilation_h - top
                    if 0 <= h < height:
                        target = base + c * step_c + h * step_h + shift * step_w
                        for j in range(first, last):
                            x[target + j * stride_w * step_w] += column[i * out_w + j]
                row += 1


@inner
def copy_pixels(y: Array, base: int, image: Numbers, pixels: Array) -> None:
    """pixels[k, i j] = the image that starts at base, contiguous in any layout."""
    filters, height, width, _, step_k, step_h, step_w = image
    for k in range(filters):
        for i in range(height):
            start = base + k * step_k + i * step_h
            for j in range(width):
                pixels[k, i * width + j] = y[start + j * step_w]


@inner
def store(sums: Array, rows: int, bias: Array, relu: bool, image: Numbers, base: int, y: Array) -> None:
    """The image that starts at base = sums[k, i j] + bias[k], cut off at zero if requested."""
    _, height, width, _, step_k, step_h, step_w = image
    for k in range(rows):
        for i in range(height):
            start = base + k * step_k + i * step_h
            for j in range(width):
                value = sums[k, i * width + j] + bias[k]
                y[start + j * step_w] = value if value > 0 or not relu else 0.0


@inner
def forward_chunk(
    x: Array, w: Array, bias: Array, relu: bool, shape: Numbers, columns: Array, sums: Array, y: Array, part: Numbers
) -> None:
    """Tasks part[0] to part[1] of the tasks (image, group, block of filters), with part[2] blocks."""
    window, source, target = shape[:10], shape[10:17], shape[17:]
    first_task, last_task, blocks = part
    groups, filters = w.shape[0], w.shape[1]
    for task in range(first_task, last_task):
        n, group, block = task // blocks // groups, task // blocks % groups, task % blocks
        first, last = filters * block // blocks, filters * (block + 1) // blocks
        gather(x, n * source[3] + group * source[0] * source[4], window, source, columns)
        sums[:] = 0.0
        add_product(w[group, first:last], columns, sums)
        first += group * filters
        rows = last + group * filters - first
        store(sums, rows, bias[first:], relu, target, n * target[3] + first * target[4], y)


@parallel
def conv2d_forward(
    x: Array, w: Array, bias: Array, relu: bool, images: int, shape: Numbers, columns: Array, sums: Array, y: Array
) -> None:
    """x and y are flat, w is [groups, k, c r s], shape is window, image of x, image of y in one tuple.

    Filters are cut into blocks only when there are fewer images and groups than threads.
    """
    chunks = columns.shape[0]
    blocks = min(w.shape[1], (chunks + images * w.shape[0] - 1) // (images * w.shape[0]))
    tasks = images * w.shape[0] * blocks
    for chunk in prange(chunks):
        part = (tasks * chunk // chunks, tasks * (chunk + 1) // chunks, blocks)
        forward_chunk(x, w, bias, relu, shape, columns[chunk], sums[chunk], y, part)


@inner
def input_gradient_chunk(
    dy: Array, w: Array, shape: Numbers, columns: Array, pixels: Array, dx: Array, first: int, last: int
) -> None:
    """A range of images, all groups."""
    window, target, source = shape[:10], shape[10:17], shape[17:]
    dx[first * target[3] : last * target[3]] = 0.0
    for n in range(first, last):
        for group in range(w.shape[0]):
            copy_pixels(dy, n * source[3] + group * source[0] * source[4], source, pixels)
            columns[:] = 0.0
            add_product(w[group], pixels, columns)
            scatter(columns, window, target, n * target[3] + group * target[0] * target[4], dx)


@parallel
def conv2d_input_gradient(
    dy: Array, w: Array, images: int, shape: Numbers, columns: Array, pixels: Array, dx: Array
) -> None:
    """dy and dx are flat, w is [groups, c r s, k]; chunks own ranges of images."""
    chunks = columns.shape[0]
    for chunk in prange(chunks):
        first, last = images * chunk // chunks, images * (chunk + 1) // chunks
        input_gradient_chunk(dy, w, shape, columns[chunk], pixels[chunk], dx, first, last)


@inner
def weight_gradient_chunk(
    x: Array, dy: Array, shape: Numbers, buffers: Numbers, sums: Array, first: int, last: int
) -> None:
    """A range of images, all groups: their sum in sums[group, k, c r s]."""
    window, source, gradient = shape[:10], shape[10:17], shape[17:]
    columns, transposed, pixels = buffers
    sums[:] = 0.0
    for n in range(first, last):
        for group in range(sums.shape[0]):
            gather(x, n * source[3] + group * source[0] * source[4], window, source, columns)
            for row in range(transposed.shape[0]):
                for column in range(transposed.shape[1]):
                    transposed[row, column] = columns[column, row]
            copy_pixels(dy, n * gradient[3] + group * gradient[0] * gradient[4], gradient, pixels)
            add_product(pixels, transposed, sums[group])


@parallel
def conv2d_weight_gradient(
    x: Array, dy: Array, images: int, shape: Numbers, columns: Array, transposed: Array, pixels: Array, sums: Array
) -> None:
    """x and dy are flat; sums[chunk, group, k, c r s] over the images of each chunk; the caller adds the chunks."""
    chunks = sums.shape[0]
    for chunk in prange(chunks):
        first, last = images * chunk // chunks, images * (chunk + 1) // chunks
        buffers = (columns[chunk], transposed[chunk], pixels[chunk])
        weight_gradient_chunk(x, dy, shape, buffers, sums[chunk], first, last)
