"""Results made by hand, a row per line, for tests of rendering and of the commands."""

from __future__ import annotations

from typing import Any

from profkit.measurement.result import Cell, Result, Row
from profkit.ops import Conv2d, Spec
from profkit.rendering.results.content import build_tables
from profkit.rendering.tables.table import Table

BASELINE = "conv2d/torch/cpu"


def ok_row(key: str, median_ms: float, ratio: float, verdict: str, **changes: Any) -> Row:
    """A measured row with plausible numbers around the given ones."""
    median = median_ms * 1e6
    values: dict[str, Any] = {
        "median_ns": median,
        "low_ns": median * 0.99,
        "high_ns": median * 1.012,
        "first_call_ns": int(median * 3),
        "warmup_ns": [median * 1.1, median],
        "samples_ns": [median * 0.99, median, median * 1.01],
        "sample_rounds": [0, 1, 2],
        "gflops": 1677.0 / median_ms,
        "percent_of_peak": 800.0 / median_ms,
        "percent_of_bound": 810.0 / median_ms,
        "peak_bytes": 13_000_000,
        "page_faults": 12.0,
        "max_error": 2.13e-7,
        "tolerance": 3.8e-5,
        "ratio": ratio,
        "ratio_low": ratio * 0.985,
        "ratio_high": ratio * 1.013,
        "verdict": verdict,
        "output": "fresh",
        "versions": {"version": "1.2.3"},
    }
    return Row(key, "ok", **{**values, **changes})


def baseline_row(median_ms: float = 10.31, key: str = BASELINE) -> Row:
    """The row to which the others are compared."""
    return ok_row(key, median_ms, 1.0, "baseline", ratio_low=1.0, ratio_high=1.0)


def cell(*rows: Row, spec: Spec | None = None, **changes: Any) -> Cell:
    """A cell of the default convolution at stride 2 on two threads."""
    values: dict[str, Any] = {
        "threads": 2,
        "baseline": next((row.key for row in rows if row.verdict == "baseline"), None),
        "peaks": {"flops_per_s": 211.4e9, "bytes_per_s": 18.24e9},
        "bound": "compute",
        "cache": "hot",
        "seconds": 12.0,
    }
    chosen = Conv2d(stride=2) if spec is None else spec
    return Cell(spec=chosen, rows=list(rows), **{**values, **changes})


def result(*cells: Cell, interrupted: bool = False) -> Result:
    """A run with these cells."""
    peaks = {"flops_per_s": 211.4e9, "bytes_per_s": 18.24e9}
    return Result({"cpu": "a machine"}, peaks, list(cells), interrupted)


def realistic_cell(spec: Spec | None = None, scale: float = 1.0) -> Cell:
    """Sixteen rows as a machine with most frameworks gives them."""
    reused = {"output": "reused", "peak_bytes": 524288}
    key = "conv2d/"
    rows = [
        ok_row(key + "native/cpu/implicit_gemm", 9.81 * scale, 1.051, "faster", **reused),
        ok_row(key + "native/cpu/im2col_batched", 15.2 * scale, 0.678, "slower", output="reused", peak_bytes=104857600),
        ok_row(key + "native/cpu/direct", 31.4 * scale, 0.328, "slower", **reused),
        ok_row(key + "native/cpu/reference", 1204.0 * scale, 0.00856, "slower", **reused),
        ok_row(key + "numpy/cpu", 84.7 * scale, 0.1217, "slower", note="im2col with as_strided, then one matmul"),
        baseline_row(10.31 * scale),
        ok_row(key + "torch/cpu/channels_last", 10.2 * scale, 1.011, "same", layout="NHWC"),
        ok_row(key + "tensorflow/cpu/eager", 12.9 * scale, 0.799, "slower", layout="NHWC"),
        ok_row(key + "tensorflow/cpu/function", 12.1 * scale, 0.852, "slower", layout="NHWC"),
        ok_row(
            key + "jax/cpu", 10.6 * scale, 0.973, "not resolved", next_step="rerun with --budget 60s", ratio_low=0.9
        ),
        ok_row(key + "onnxruntime/cpu", 11.3 * scale, 0.912, "slower"),
        Row(key + "numba/cpu", "wrong", "largest error 3.1e-02, accepted 3.8e-05", max_error=3.1e-2, tolerance=3.8e-5),
        Row(key + "keras/cpu/jax", "crashed", "the worker was ended by signal 11 (segmentation fault) in prepare"),
        Row(key + "keras/cpu/torch", "unsupported", "keras.ops.conv has no gradients"),
        Row(key + "cupy/cuda", "unavailable", 'cupy is not installed; pip install "profkit[cupy]"'),
        Row(key + "numba_cuda/cuda", "unavailable", "no CUDA driver was found: libcuda.so.1 cannot be loaded " * 4),
    ]
    return cell(*rows, spec=spec)


def table_of(*rows: Row, **changes: Any) -> Table:
    """The only table of a cell with these rows."""
    (table,) = build_tables(result(cell(*rows, **changes)))
    return table


def column(table: Table, name: str) -> list[str]:
    """A column's texts, top to bottom."""
    index = [column.name for column in table.columns].index(name)
    return [line.texts[index] for line in table.lines]
