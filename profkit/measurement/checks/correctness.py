"""Is a result right, where is it wrong, and how precisely was it computed; and inputs that are harder than random ones.

Input: a worker's result, the float64 reference, a tolerance. Output: what a row says of it. Starts no process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.measurement.result import Row
from profkit.ops.spec import Array, Spec

FULL_PRECISION = "float32"
PRECISIONS = ((4e-5, FULL_PRECISION), (1e-3, "tf32 or float16"), (8e-3, "bfloat16"))
"""Error up to which a float32 result counts as computed that way: root of the mean square over that of the reference.

Rounding operands or the result gives 2e-4 to 4e-4 with 10 bits of fraction (tf32, float16) and 1.5e-3 to 3.5e-3 with 7
(bfloat16), for all operators and sums of any length; float32 gives 2e-6 at most, with 8192 terms added one by one.
"""
COARSER = "coarser"
STEEP, FLAT = "magnitudes from 2^-24 to 2^27", "zeros and constants"


@dataclass(frozen=True)
class Finding:
    """A result compared with its reference."""

    error: float
    """Largest difference, relative to the largest reference value; infinite with NaN and infinities."""
    elements: int
    differing: int = 0
    """Those beyond the tolerance."""
    nans: int = 0
    index: tuple[int, ...] = ()
    """Of the first that differs."""
    got: float | None = None
    expected: float | None = None
    precision: str = ""
    """The format in which it was computed, by its error; only of float32 results."""

    @property
    def is_right(self) -> bool:
        """Whether nothing differs."""
        return not self.differing

    def text(self, limit: float) -> str:
        """One line that says where it is wrong."""
        nans = f", {self.nans:,} of them NaN" if self.nans else ""
        like = f"; that is the error of {self.precision}" if self.precision not in ("", FULL_PRECISION, COARSER) else ""
        return (
            f"at ({', '.join(map(str, self.index))}) it is {self.got:.7g}, expected {self.expected:.7g}; "
            f"{self.differing:,} of {self.elements:,} differ{nans}; "
            f"error {self.error:.2g} exceeds the tolerance {limit:.2g}{like}"
        )


def compare(
    result: Array, reference: NDArray[np.float64], limit: float, scale: NDArray[np.float64] | None = None
) -> Finding:
    """The result against the reference, relative to its largest value, or to `scale`, which broadcasts."""
    if not result.size:
        return Finding(0.0, 0)
    whole = float(np.max(np.abs(reference))) or 1.0
    off = np.abs(result.astype(np.float64) - reference)
    relative = off / (whole if scale is None else scale)
    worst = float(np.max(relative))
    error = worst if np.isfinite(worst) else float("inf")
    precision = _precision(off, reference) if result.dtype == np.float32 and scale is None else ""
    if error <= limit:
        return Finding(error, result.size, precision=precision)
    wrong = ~(relative <= limit)  # also true for NaN
    first = int(np.argmax(wrong))
    index = tuple(int(place) for place in np.unravel_index(first, result.shape))
    return Finding(
        error,
        result.size,
        int(np.count_nonzero(wrong)),
        int(np.count_nonzero(np.isnan(result.astype(np.float64)))),
        index,
        float(result[index]),
        float(reference[index]),
        precision,
    )


def _precision(off: NDArray[np.float64], reference: NDArray[np.float64]) -> str:
    """By the mean square, which few wrong elements or a long sum hardly move; a plainly wrong result has none."""
    size = float(np.sqrt(np.mean(np.square(reference))))
    share = float(np.sqrt(np.mean(np.square(off)))) / size if size else 0.0
    found = next((word for least, word in PRECISIONS if share <= least), COARSER)
    return found if np.isfinite(share) else ""


def fill_row(row: Row, finding: Finding, limit: float, where: str = "") -> None:
    """Status, reason and numbers of a row from its check; `where` begins the reason."""
    row.status = "ok" if finding.is_right else "wrong"
    row.tolerance = limit
    row.max_error = max(finding.error, row.max_error or 0.0)
    row.precision = finding.precision or row.precision
    if finding.is_right:
        return
    row.reason = where + finding.text(limit)
    row.wrong_index, row.wrong_got, row.wrong_expected = list(finding.index), finding.got, finding.expected
    row.wrong_elements, row.checked_elements, row.nan_elements = finding.differing, finding.elements, finding.nans


@dataclass(frozen=True)
class HardInputs:
    """Inputs on which a kernel may fail that is right on random ones."""

    name: str
    inputs: dict[str, Array]
    reference: NDArray[np.float64]
    scale: NDArray[np.float64]
    """Scale of errors: in each slice of the output's first axis the largest sum of terms' magnitudes."""


def hard_inputs(spec: Spec, seed: int) -> Iterator[HardInputs]:
    """One after the other, as each is as large as the inputs: steep ones, then flat ones."""
    makers = {STEEP: _steep, FLAT: _flat} if spec.has_steep_inputs() else {FLAT: _flat}
    for name, inputs in ((name, make(spec, seed)) for name, make in makers.items()):
        reference = spec.reference(inputs)
        sizes = {key: np.abs(array) for key, array in inputs.items()}
        # Where all are positive the sum of the terms' magnitudes is the result.
        terms = reference if name == FLAT or len(inputs) == 1 else spec.reference(sizes)
        axes = tuple(range(1, reference.ndim))
        scale = np.max(np.abs(terms), axis=axes, keepdims=True)
        if not spec.has_steep_inputs():  # a slice, or all of a gradient, may be small because its terms cancel
            largest = max(float(np.max(size)) for size in sizes.values()) * spec.growth_of_constants()
            scale = np.full_like(scale, max(largest, float(np.max(scale))))
        yield HardInputs(name, inputs, reference, np.where(scale > 0.0, scale, 1.0))


def _steep(spec: Spec, seed: int) -> dict[str, Array]:
    """Slices of very different magnitude, by powers of two, which change no rounding, around a mean that cancels."""
    inputs = spec.make_inputs(seed + 1)
    name, axis = spec.leading_input()
    is_small = spec.dtype_word == "float16"  # whose sums would overflow
    exponents = (-6, 0, -3) if is_small else (-24, 0, 24, -12, 12)
    mean = 0.0 if is_small else 8.0
    array = inputs[name]
    factors = np.exp2(np.resize(np.array(exponents, np.float64), array.shape[axis]))
    shape = [array.shape[axis] if place == axis else 1 for place in range(array.ndim)]
    values: NDArray[Any] = (array.astype(np.float64) + mean) * factors.reshape(shape)
    return {**inputs, name: values.astype(array.dtype)}


def _flat(spec: Spec, seed: int) -> dict[str, Array]:
    """Everything constant, and every second slice zero."""
    inputs = {key: np.full_like(array, 0.25) for key, array in spec.make_inputs(seed).items()}
    name, axis = spec.leading_input()
    np.moveaxis(inputs[name], axis, 0)[::2] = 0
    return inputs
