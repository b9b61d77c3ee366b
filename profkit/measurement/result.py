"""What a measurement leaves: plain data, one row per implementation, and its JSON form profkit.result/1."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from profkit.ops import spec_from_dict
from profkit.ops.spec import Spec

SCHEMA = "profkit.result/1"
STATUSES = ("ok", "unavailable", "unsupported", "wrong", "oom", "timeout", "crashed", "lost")
VERDICTS = ("baseline", "faster", "slower", "same", "not resolved")


@dataclass
class Row:
    """One implementation in one cell. Numbers are None when they were not measured, never 0."""

    key: str
    status: str
    reason: str = ""
    median_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    first_call_ns: int | None = None
    warmup_ns: list[float] = field(default_factory=list)
    samples_ns: list[float] = field(default_factory=list)
    sample_rounds: list[int] = field(default_factory=list)
    """Round in which each sample was taken: samples of one round are paired across rows."""
    calls_per_sample: int = 1
    gflops: float | None = None
    percent_of_peak: float | None = None
    percent_of_bound: float | None = None
    """Share of the roofline: 100 x bound_ns / median."""
    bound_ns: float | None = None
    """Least time of its method, by peak arithmetic and by bandwidth."""
    method: str = ""
    """How a native convolution computes: `direct`, or `Winograd` and its tiles, which have a bound of their own."""
    peak_bytes: int | None = None
    page_faults: float | None = None
    """Minor page faults per call."""
    max_error: float | None = None
    tolerance: float | None = None
    ratio: float | None = None
    """Baseline time / this time: above 1 is faster than the baseline."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: str = ""
    next_step: str = ""
    """What to type when the verdict is `not resolved`."""
    output: str = ""
    layout: str = ""
    note: str = ""
    rounding: str = ""
    """Coarser format in which it multiplies (tf32), for which the tolerance allows."""
    timing: str = ""
    """How the samples of a row on a device came about; empty on a CPU, where all are timed by the wall clock."""
    throttled_samples: list[int] = field(default_factory=list)
    """Numbers of the samples that were taken while the device was throttled, though they had been taken again."""
    wall_ns: float | None = None
    """One call on a device with launching and waiting, by the wall clock; of long ones only where nothing else is."""
    dispatch_ns: float | None = None
    """What the host takes to enqueue one call, measured while the device was held."""
    kernel_ns: float | None = None
    """Device time of the kernels of one call, as CUPTI has it; only with `kernel_time`."""
    device: dict[str, str] = field(default_factory=dict)
    """What was seen of the device while it was measured: clocks, reasons for throttling."""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass
class Cell:
    """One spec at one thread count: the rows that are compared with each other."""

    spec: Spec
    threads: int
    baseline: str | None
    peaks: dict[str, float]
    """flops_per_s and bytes_per_s of this machine for this dtype and thread count; empty without rows on its CPU."""
    bound: str
    """`compute` or `memory`: which of the two sets the least possible time on the CPU; empty without rows there."""
    cache: str
    rows: list[Row]
    bound_ns: float | None = None
    """That time, of the direct method."""
    output: str = "fresh"
    """What was asked for; a row that differs says so in its own `output`."""
    left_out: list[str] = field(default_factory=list)
    """Keys of what could run here and was not measured, because it is not a default row."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    policy: dict[str, Any] = field(default_factory=dict)
    """With `--explain`: which native row the policy takes, why, and whether the measurement agrees."""

    def row(self, key: str) -> Row:
        """The row with this key."""
        return next(row for row in self.rows if row.key == key)


@dataclass
class Result:
    """Everything that one run measured."""

    environment: dict[str, Any]
    peaks: dict[str, float]
    cells: list[Cell]
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; every number is finite or null."""
        data = {
            "schema": SCHEMA,
            "environment": self.environment,
            "peaks": self.peaks,
            "interrupted": self.interrupted,
            "cells": [
                {
                    **{item.name: getattr(cell, item.name) for item in fields(cell)},
                    "spec": cell.spec.to_dict(),
                    "rows": [asdict(row) for row in cell.rows],
                }
                for cell in self.cells
            ],
        }
        finite: dict[str, Any] = finite_numbers(data)
        return finite

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        """Read `to_dict` back."""
        if data.get("schema") != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, got {data.get('schema')!r}")
        cells = [
            Cell(**{**cell, "spec": spec_from_dict(cell["spec"]), "rows": [Row(**row) for row in cell["rows"]]})
            for cell in data["cells"]
        ]
        return cls(data["environment"], data["peaks"], cells, data["interrupted"])

    def measured_rows(self) -> list[Row]:
        """Rows that carry a time."""
        return [row for cell in self.cells for row in cell.rows if row.status == "ok"]


def finite_numbers(value: Any) -> Any:
    """JSON has no NaN or infinity; an unmeasurable number becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_numbers(item) for item in value]
    return value
