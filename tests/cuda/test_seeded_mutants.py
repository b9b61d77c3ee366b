"""The checks of CUDA kernels see faults: kernels with one seeded fault each must fail, in the way that is written here.

A mutant that nobody sees is a hole in the checks. The sound kernel passes the same problems under the same sanitizers,
so that it is the fault which is reported.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import Pool2d
from profkit.ops.softmax import Softmax
from tests.cuda.mutants import Mutant, occurrences, reports

WRONG_RESULT = ", at most "
OVERFLOW = ("heap-buffer-overflow", "address")
RACE = ("data race", "thread")
# With unequal sides and strides.
CONV = Conv2d(batch=2, in_channels=3, out_channels=5, height=9, width=8, kernel_size=3, padding=1)
POOL = Pool2d(batch=1, channels=2, height=9, width=8, kernel_size=3, stride="1x2", padding=1, mode="average")

MUTANTS = (
    Mutant(
        "a sum over a block without its barrier",
        "softmax/block_rows",
        "cuda/reduce.cuh",
        "  __syncthreads();\n",
        "",
        Softmax(2, 300),
        *RACE,
    ),
    Mutant(
        "one more partial sum than there are warps",
        "softmax/block_rows",
        "cuda/reduce.cuh",
        "lane < kThreads / kWarpSize ?",
        "lane <= kThreads / kWarpSize ?",
        Softmax(2, 300),
        WRONG_RESULT,
    ),
    Mutant(
        "shuffles whose mask names half of the lanes",
        "softmax/warp_rows",
        "cuda/reduce.cuh",
        "kFullWarp, value, distance, kWidth",
        "0x0000ffffu, value, distance, kWidth",
        Softmax(2, 40),
        "the mask does not name lane",
    ),
    Mutant(
        "the first exchange of a sum left out",
        "softmax/warp_rows",
        "cuda/reduce.cuh",
        "int distance = kWidth / 2;",
        "int distance = kWidth / 4;",
        Softmax(2, 40),
        WRONG_RESULT,
    ),
    Mutant(
        "lanes without a row leave before the shuffles",
        "softmax/warp_rows",
        "softmax/cuda/warp_rows.cuh",
        "const bool has_row = row < rows;",
        "const bool has_row = row < rows; if (!has_row) return;",
        Softmax(1, 7),
        "which has exited",
    ),
    Mutant(
        "a column behind the row is read",
        "softmax/warp_rows",
        "softmax/cuda/warp_rows.cuh",
        "has_row && column < columns ?",
        "has_row && column <= columns ?",
        Softmax(3, 7),
        *OVERFLOW,
    ),
    Mutant(
        "windows step down by the stride of columns",
        "pool2d/direct",
        "pool2d/cuda/problem.cuh",
        "y * stride_h - pad_top",
        "y * stride_w - pad_top",
        POOL,
        WRONG_RESULT,
    ),
    Mutant(
        "windows reach one column behind the image",
        "pool2d/direct",
        "pool2d/cuda/problem.cuh",
        "min(left + kernel_w, width)",
        "min(left + kernel_w, width + 1)",
        replace(POOL, width=7),
        WRONG_RESULT,
    ),
    Mutant(
        "an element takes part in one window too many",
        "pool2d/vectorized",
        "pool2d/cuda/problem.cuh",
        "reach < 0 ? 0 : reach / stride + 1;",
        "reach < 0 ? 0 : reach / stride;",
        replace(POOL, direction=INPUT_GRADIENT, layout="NHWC", channels=4),
        WRONG_RESULT,
    ),
    Mutant(
        "the window of the last channels ends one channel too late",
        "lrn/direct",
        "lrn/cuda/direct.cuh",
        "problem.channels - 1 - channel",
        "problem.channels - channel",
        LocalResponseNorm(1, 7, 3, 3, size=5),
        *OVERFLOW,
    ),
    Mutant(
        "neighbouring channels at the distance of positions",
        "lrn/direct",
        "lrn/cuda/direct.cuh",
        "neighbour += problem.channel_step;",
        "neighbour += problem.positions / problem.channel_step;",
        LocalResponseNorm(2, 7, 2, 2, size=3, alpha=1.0, layout="NHWC"),
        WRONG_RESULT,
    ),
    Mutant(
        "a channel behind the last one is written",
        "lrn/channel_walk",
        "lrn/cuda/channel_walk.cuh",
        "if (start + i < problem.channels)",
        "if (start + i <= problem.channels)",
        LocalResponseNorm(1, 7, 3, 3, size=5),
        *OVERFLOW,
    ),
    Mutant(
        "rows of the input by the stride of columns",
        "conv2d/direct",
        "conv2d/cuda/problem.cuh",
        "y_at * stride_h + r",
        "y_at * stride_w + r",
        replace(CONV, stride="1x2"),
        WRONG_RESULT,
    ),
    Mutant(
        "the column behind the image counts as inside",
        "conv2d/direct",
        "conv2d/cuda/problem.cuh",
        "static_cast<unsigned>(w) < static_cast<unsigned>(width)",
        "static_cast<unsigned>(w) <= static_cast<unsigned>(width)",
        replace(CONV, direction=WEIGHT_GRADIENT),
        WRONG_RESULT,
    ),
    Mutant(
        "taps between the strides take part in the gradient",
        "conv2d/direct",
        "conv2d/cuda/image_rows.cuh",
        "at < count && at * stride == tap_end",
        "at < count",
        replace(CONV, direction=INPUT_GRADIENT, stride=2),
        WRONG_RESULT,
    ),
    Mutant(
        "a slice is read while it is gathered",
        "conv2d/implicit_gemm",
        "conv2d/cuda/slab_loop.cuh",
        "        __syncthreads();\n",
        "",
        replace(CONV, in_channels=8),
        *RACE,
    ),
    Mutant(
        "results of a group as if its rows had no gaps",
        "conv2d/im2col_batched",
        "matmul/cuda/params.h",
        "static_cast<int>(o.c_row),",
        "static_cast<int>(p.n),",
        replace(CONV, in_channels=4, out_channels=6, groups=2, layout="NHWC"),
        WRONG_RESULT,
    ),
    Mutant(
        "filters for each image, though all share them",
        "conv2d/im2col_batched",
        "matmul/cuda/params.h",
        "          o.a_batch_step,",
        "          p.m * p.k,",
        CONV,
        *OVERFLOW,
    ),
    Mutant(
        "a bias for each position in place of each channel",
        "conv2d/im2col_batched",
        "matmul/cuda/params.h",
        "o.bias_of_rows ? cuda::BiasOf::rows",
        "o.bias_of_rows ? cuda::BiasOf::columns",
        replace(CONV, bias=True),
        *OVERFLOW,
    ),
    Mutant(
        "a tile is filled while it is multiplied",
        "matmul/tiled_shared",
        "matmul/cuda/tiled_shared.cuh",
        "    }\n    __syncthreads();\n",
        "    }\n",
        MatMul(18, 20, 70),
        *RACE,
    ),
    Mutant(
        "a term behind the last one is read",
        "matmul/tiled_shared",
        "matmul/cuda/tiles/scalar.cuh",
        "depth < depth_left",
        "depth <= depth_left",
        MatMul(5, 6, 7),
        *OVERFLOW,
    ),
    Mutant(
        "the next tile is multiplied before all of it is stored",
        "matmul/double_buffered",
        "matmul/cuda/double_buffered.cuh",
        "          __syncthreads();\n",
        "",
        MatMul(20, 30, 40),
        *RACE,
    ),
    Mutant(
        "results behind the row's end are stored",
        "matmul/double_buffered",
        "matmul/cuda/tiles/thread.cuh",
        "column_of(j + e) < problem.n",
        "column_of(j + e) <= problem.n",
        MatMul(9, 7, 12),
        *OVERFLOW,
    ),
    Mutant(
        "fragments are read before their copies are waited for",
        "matmul/tensor_core",
        "matmul/cuda/tensor_core.cuh",
        "copy_async_wait<Tiles::kStages - 2>();",
        "copy_async_wait<Tiles::kStages>();",
        MatMul(16, 16, 64, dtype="float16"),
        WRONG_RESULT,
    ),
)


IN_QUICK_TIER = MUTANTS[2:4]
"""They are made of one source."""


def test_the_text_of_every_fault_is_in_its_file_once() -> None:
    changed = [
        f"{mutant.file}: choose the text anew of {mutant.fault}" for mutant in MUTANTS if occurrences(mutant) != 1
    ]

    assert changed == []


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant, marks=() if mutant in IN_QUICK_TIER else pytest.mark.full, id=f"{mutant.kernel}: {mutant.fault}"
        )
        for mutant in MUTANTS
    ],
)
def test_a_seeded_fault_is_seen(mutant: Mutant, tmp_path: Path) -> None:
    sound, faulty = reports(mutant, tmp_path)

    assert sound == ""
    assert mutant.report in faulty
