"""The result of a measurement: plain data, one row per implementation, and its JSON form profkit.result/1."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypedDict

import numpy as np

from profkit.capture.checked_json import check, made, shortened
from profkit.capture.importers.json_stream import NUMBERS, DamagedError, JsonStream
from profkit.capture.importers.unzipping import unzipped
from profkit.capture.opening import RESULT_SCHEMA
from profkit.errors import CaptureError, SpecError, first_line
from profkit.measurement.bounds import BEYOND_MACHINE
from profkit.measurement.checks.audit import REPEATED_CALLS, REPEATED_INPUTS
from profkit.measurement.statistics.estimates import Centre, Estimate, Floats, by_run, centre_of, round_medians
from profkit.ops import spec_from_dict
from profkit.ops.spec import Spec

VERSION = 1
SCHEMA = f"{RESULT_SCHEMA}{VERSION}"
STATUSES = (
    "ok", "unavailable", "unsupported", "not compiled", "not loaded", "wrong", "oom", "timeout", "crashed", "lost",
)  # fmt: skip
MOST_ROUNDS, LONGEST_KEY = 1 << 31, 500
MOST_ROWS, MOST_CELLS = 500, 2_000
LONGEST_TEXT = 100_000
"""Of a field: what shows it breaks it into lines. profkit writes no longer ones."""
"""Of a cell and of a result; there are some 50 implementations of an operator."""
DOUBTFUL = "doubtful"
WITHDRAWN = (DOUBTFUL, REPEATED_INPUTS, REPEATED_CALLS, BEYOND_MACHINE)
"""In place of `faster`; the row's doubts say why."""
VERDICTS = ("baseline", "faster", "slower", "same", "not resolved", *WITHDRAWN)


@dataclass
class Row:
    """One implementation in one cell. Numbers are None when they were not measured, never 0."""

    key: str
    status: str
    reason: str = ""
    median_ns: float | None = None
    """The baseline's: mean of the middle half of its rounds' medians, on logarithms; another's: that / its ratio."""
    low_ns: float | None = None
    high_ns: float | None = None
    p5_ns: float | None = None
    p95_ns: float | None = None
    p99_ns: float | None = None
    trimmed_mean_ns: float | None = None
    """Of the samples without the tenth at either end."""
    low_mode_ns: float | None = None
    high_mode_ns: float | None = None
    high_mode_share: float | None = None
    """Two times around which its rounds cluster, and the share around the higher; None: there is only one."""
    drift: float | None = None
    """By how much its ratio (the baseline's: its time) changed from begin to end of a run, if more than by chance."""
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
    """How a native convolution computes: `direct`, or `Winograd` and its tiles, which have a separate bound."""
    peak_bytes: int | None = None
    page_faults: float | None = None
    """Minor page faults per call."""
    max_error: float | None = None
    tolerance: float | None = None
    precision: str = ""
    """As what a float32 result was computed, by its error: `float32`, `tf32 or float16`, `bfloat16`, `coarser`."""
    wrong_index: list[int] = field(default_factory=list)
    """Index of the first element of a wrong result that differs by more than the tolerance."""
    wrong_got: float | None = None
    wrong_expected: float | None = None
    wrong_elements: int | None = None
    """How many differ, of how many, and how many are NaN."""
    checked_elements: int | None = None
    nan_elements: int | None = None
    checked_calls: int = 0
    """Of a candidate: results that were checked, of calls that it could not distinguish from others."""
    audit: dict[str, float] = field(default_factory=dict)
    """Of a candidate and its baseline: single calls on new contents and on the same ones (audit.AuditFinding)."""
    unexplained_ns: float | None = None
    """Time of a turn that passed for the parent and that the worker does not account for: median."""
    ratio: float | None = None
    """Baseline time / this time: above 1 is faster than the baseline."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    least_difference: float | None = None
    """The smallest difference from the baseline that its interval could have resolved."""
    verdict: str = ""
    next_step: str = ""
    """What to type when the verdict is `not resolved`."""
    doubts: list[str] = field(default_factory=list)
    """Why its times cannot be trusted: such a row is `doubtful`, not `faster`."""
    processors: float | None = None
    """How many its worker, and all that this started, kept busy during its turns."""
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
    """The host's time to enqueue one call, measured while the device was held."""
    kernel_ns: float | None = None
    """Device time of the kernels of one call, as CUPTI has it; only with `kernel_time`."""
    device: dict[str, str] = field(default_factory=dict)
    """Observations of the device while it was measured: clocks, reasons for throttling."""
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
    """The requested output mode; a row that differs says so in its own `output`."""
    left_out: list[str] = field(default_factory=list)
    """Keys of what could run here and was not measured, because it is not a default row."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    rounds: int = 0
    run_starts: list[int] = field(default_factory=lambda: [0])
    """The first round of each run: `--again` adds runs."""
    dropped: dict[str, list[int]] = field(default_factory=dict)
    """Dropped rounds, by the disturbance."""
    is_too_busy: bool = False
    """More than half of the rounds were disturbed: all of them count, and there is no verdict."""
    floor: float = 0.0
    """The machine's scatter between runs, a standard deviation, that all intervals include."""
    floor_from: str = ""
    """`measured` and when, or `assumed`."""
    machine: dict[str, float] = field(default_factory=dict)
    """During the samples: others_share, stolen_share, load, least_mhz, most_mhz, round_trip_ns between two processors
    (median, and low_ and high_ for the first and the last tenth), as far as the system reports it.
    """
    policy: dict[str, Any] = field(default_factory=dict)
    """With `--explain`: which native row the policy takes, why, and whether the measurement agrees."""

    def row(self, key: str) -> Row:
        """The row with this key."""
        return next(row for row in self.rows if row.key == key)

    def ratio(self, rival: Row, own: Row) -> Estimate | None:
        """Time of one row / time of another, from the rounds that count; None without common rounds."""
        centre = self.ratio_centre(rival, own)
        return None if centre is None else centre.estimate(self.floor)

    def log_ratios(self, rival: Row, own: Row) -> Floats:
        """Logarithms of these ratios, round by round."""
        return np.array(list(self._log_ratios(rival, own).values()))

    def ratio_centre(self, rival: Row, own: Row) -> Centre | None:
        """The same with what is needed to compare it with that of another result."""
        return centre_of(by_run(self._log_ratios(rival, own), self.run_starts))

    def time_centre(self, row: Row) -> Centre | None:
        """Centre of the row's own times, which are not paired with others."""
        return centre_of(by_run(self._log_times(row), self.run_starts))

    def log_times(self, row: Row) -> Floats:
        """Logarithms of its times, round by round."""
        return np.array(list(self._log_times(row).values()))

    def _log_ratios(self, rival: Row, own: Row) -> dict[int, float]:
        times, own_times = self._log_times(rival), self._log_times(own)
        return {at: times[at] - own_times[at] for at in times if at in own_times}

    def _log_times(self, row: Row) -> dict[int, float]:
        """Of the rounds that count, in order."""
        dropped = set() if self.is_too_busy else {at for rounds in self.dropped.values() for at in rounds}
        times = round_medians(row.samples_ns, row.sample_rounds)
        return {at: math.log(ns) for at, ns in times.items() if at not in dropped}


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

    def measured_rows(self) -> list[Row]:
        """Rows that carry a time."""
        return [row for cell in self.cells for row in cell.rows if row.status == "ok"]


def read_result(path: str | os.PathLike[str]) -> Result:
    """The result that `--json` wrote, plain or packed by gzip; CaptureError when it is damaged or too new."""
    name = os.fspath(path)
    with unzipped(path) as stream:
        try:
            document = JsonStream(stream, NUMBERS, "strict")
            result = _result(document.walk(_CELLS), name)
            if stream.trouble:
                raise ValueError(stream.trouble)
            if not document.has_array:
                raise ValueError("it has no list of cells")
            return result
        except OSError as error:
            raise CaptureError(f"cannot read {name}: {error.strerror or error}") from None
        except (ValueError, TypeError, SpecError, DamagedError, RecursionError) as error:
            reason = stream.trouble or first_line(error)
            raise CaptureError(f"{name} is a damaged result: {reason}; measure again with --json") from None


_CELLS = "cells"


def _result(items: Iterable[tuple[str, Any]], path: str) -> Result:
    """From its values and cells one by one: a wrong one ends it, before the next is read."""
    values: dict[str, Any] = {}
    cells: list[Cell] = []
    for name, value in items:
        if name == "schema":
            _check_version(value, path)
        if name == _CELLS:
            if len(cells) == MOST_CELLS:
                raise ValueError(f"it has more than {MOST_CELLS:,} cells")
            cells.append(_cell(value, f"cell {len(cells)}"))
        else:
            values[name] = value
    if values.pop("schema", None) != SCHEMA:
        raise ValueError(f"it has no schema {SCHEMA}")
    return made(Result, values, "it", cells=cells)


def _check_version(schema: Any, path: str) -> None:
    version = str(schema).removeprefix(RESULT_SCHEMA)
    if version.isdecimal() and len(version) < 10 and int(version) > VERSION:
        raise CaptureError(
            f"{path} was written by a newer profkit (schema {schema}; this one reads {SCHEMA}): "
            "read it with that version, or measure again"
        )
    if schema != SCHEMA:
        raise ValueError(f"expected schema {SCHEMA}, got {str(schema)[:40]!r}")


class _Peaks(TypedDict, total=False):
    flops_per_s: float
    bytes_per_s: float
    quiet: float


class _Policy(TypedDict, total=False):
    """The fields of `policy` that are read."""

    problem: str
    key: str
    source: str
    reasons: list[str]
    costs_from: str
    measurement: str


_EXPLAINED = {"key", "source", "reasons", "costs_from", "measurement"}


def _cell(values: Any, place: str) -> Cell:
    if not isinstance(values, dict) or not isinstance(values.get("spec"), dict) or type(values.get("rows")) is not list:
        raise ValueError(f"{place} has no spec or no rows")
    if len(values["rows"]) > MOST_ROWS:
        raise ValueError(f"{place} has {len(values['rows']):,} rows, more than {MOST_ROWS:,}")
    spec = spec_from_dict(values["spec"])
    rows = [made(Row, row, f"row {number} of {place}") for number, row in enumerate(values["rows"])]
    for number, row in enumerate(rows):
        trouble = _trouble(row, spec.op)
        if trouble:
            raise ValueError(f"row {number} of {place}: {trouble}")
    others = {name: value for name, value in values.items() if name not in ("spec", "rows")}
    cell = made(Cell, others, place, spec=spec, rows=rows)
    if max(map(_longest, (cell.notes, cell.policy, cell.bound, cell.cache, cell.output))) > LONGEST_TEXT:
        raise ValueError(f"{place} has a text of more than {LONGEST_TEXT:,} characters")
    check(cell.peaks, _Peaks, f"{place} has peaks")
    if cell.peaks.keys() - _Peaks.__annotations__.keys():
        raise ValueError(f"{place} has peaks of {shortened(', '.join(cell.peaks))}")
    rounds = [cell.threads, cell.rounds, *cell.run_starts, *(at for each in cell.dropped.values() for at in each)]
    if not all(0 <= number < MOST_ROUNDS for number in (*rounds, *(at for row in rows for at in row.sample_rounds))):
        raise ValueError(f"{place} has rounds or threads below 0, or {MOST_ROUNDS:,} and more")
    check(cell.policy, _Policy, f"{place} has the policy")
    if cell.policy and "problem" not in cell.policy and not cell.policy.keys() >= _EXPLAINED:
        raise ValueError(f"{place} has a policy without {', '.join(sorted(_EXPLAINED - cell.policy.keys()))}")
    return cell


def _trouble(row: Row, op: str) -> str:
    """Checks that values are consistent, beyond their types."""
    if row.key.count("/") < 2 or row.key.split("/")[0] != op or len(row.key) > LONGEST_KEY:
        return f"{shortened(row.key)} is not a key of {op}"
    long = [name for name, value in vars(row).items() if _longest(value) > LONGEST_TEXT]
    if long:
        return f"{long[0]} has more than {LONGEST_TEXT:,} characters"
    if row.status not in STATUSES or row.verdict not in ("", *VERDICTS):
        return f"status {row.status!r} with verdict {row.verdict!r}"
    if row.status == "ok" and row.median_ns is None:
        return "it is ok and has no time"
    if len(row.samples_ns) != len(row.sample_rounds):
        return f"{len(row.samples_ns)} samples in {len(row.sample_rounds)} rounds"
    if min(row.samples_ns, default=1.0) <= 0.0:
        return "a sample took no time"
    if not all(0 <= number < len(row.samples_ns) for number in row.throttled_samples):
        return "a throttled sample is not there"
    return ""


def _longest(value: Any) -> int:
    """Characters of a text, or of the longest in a list or an object."""
    values = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return max((len(each) for each in values if isinstance(each, str)), default=0)


def finite_numbers(value: Any) -> Any:
    """JSON has no NaN or infinity; an unmeasurable number becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite_numbers(item) for item in value]
    return value
