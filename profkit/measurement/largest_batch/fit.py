"""Memory as a function of the batch, from a few small batches. Pure functions: no process, no framework.

Each block that an allocator gives out grows with the batch along a line of its own. Where the batches give out and
take back the same blocks in the same order, the sum of the live ones is therefore a line at every moment, and the peak
is the highest of these lines: a line with breakpoints, where the peak moves to another moment of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.ops.spec import Array

MOST_BATCH = 1 << 32
"""No search goes beyond it."""


@dataclass(frozen=True)
class Line:
    fixed: float
    slope: float

    def at(self, batch: float) -> float:
        return self.fixed + self.slope * batch


@dataclass(frozen=True)
class Piece:
    """A part of a line with breakpoints."""

    first: int
    """The smallest batch for which it holds."""
    line: Line
    where: str = ""
    """What runs when the peak is reached."""


@dataclass(frozen=True)
class BlockRecord:
    """What an allocator did during a run at one batch: bytes given out (above 0) and taken back (below 0)."""

    bytes: Array
    block: Array
    """Numbered in the order in which they are given out."""
    where: Sequence[str]
    """What ran at each entry."""
    begin: int = 0
    """The first entry of the steps; what stands before it was given out while the model was built."""

    @property
    def peak_bytes(self) -> int:
        """Of the steps."""
        return int(np.cumsum(self.bytes)[self.begin :].max(initial=0))

    def has_order_of(self, other: BlockRecord) -> bool:
        """Whether the same blocks come and go in the same order."""
        return (
            self.begin == other.begin
            and np.array_equal(self.block, other.block)
            and np.array_equal(self.bytes > 0, other.bytes > 0)
        )


@dataclass(frozen=True)
class AllocatorFit:
    """The allocator's peak by batch."""

    pieces: tuple[Piece, ...]
    how: str
    """From which batches, and whether the blocks themselves were fitted."""

    def at(self, batch: int) -> float:
        return max(piece.line.at(batch) for piece in self.pieces)


@dataclass(frozen=True)
class MemoryFit:
    """What a worker has resident at its peak, by batch: what it had before the model, the allocator's, and the rest."""

    base_bytes: float
    rest: Line
    """Of the growth: what no allocator reports (workspaces, code that is read for the first time, gaps of the heap);
    all of it without an allocator."""
    allocator: AllocatorFit | None = None

    def growth(self, batch: int) -> float:
        return self.rest.at(batch) + (self.allocator.at(batch) if self.allocator else 0.0)

    def resident(self, batch: int) -> float:
        return self.base_bytes + self.growth(batch)


def fit_line(points: Mapping[int, float]) -> Line:
    """Least squares; through one point a constant. More of a batch never takes less: a slope below 0 is noise."""
    batches, values = np.array(list(points), float), np.array(list(points.values()), float)
    spread = batches - batches.mean()
    slope = float((spread * values).sum() / (spread**2).sum()) if len(points) > 1 else 0.0
    slope = max(0.0, slope)
    return Line(float(values.mean() - slope * batches.mean()), slope)


def fit_allocator(records: Mapping[int, BlockRecord]) -> AllocatorFit:
    """From the batches that agree with the largest on the order of blocks; where none does, a line through the peaks of
    the last two.
    """
    batches = sorted(records)
    alike = [batch for batch in batches if records[batch].has_order_of(records[batches[-1]])]
    if len(alike) < 2:
        line = fit_line({batch: float(records[batch].peak_bytes) for batch in batches[-2:]})
        how = f"a line through the peaks at batch {_listed(batches[-2:])}"
        how += f": no other one allocates in the order of batch {batches[-1]:,}" if len(batches) > 1 else ""
        return AllocatorFit((Piece(1, line),), how)
    sizes = np.stack([records[batch].bytes for batch in alike]).astype(float)
    spread = np.array(alike, float) - np.mean(alike)
    slopes = (spread[:, None] * sizes).sum(0) / (spread**2).sum()
    fixed = sizes.mean(0) - slopes * np.mean(alike)
    last = records[alike[-1]]
    steps = slice(last.begin, None)
    pieces = highest_lines(np.cumsum(fixed)[steps], np.cumsum(slopes)[steps], list(last.where)[steps])
    others = [batch for batch in batches if batch not in alike]
    how = f"a line for each of {int((last.bytes > 0).sum()):,} blocks, from batch {_listed(alike)}"
    how += f"; batch {_listed(others)} allocates in another order" if others else ""
    return AllocatorFit(pieces, how)


def highest_lines(fixed: Array, slopes: Array, where: Sequence[str]) -> tuple[Piece, ...]:
    """The upper envelope of lines over all batches from 1 on."""
    order = np.lexsort((-fixed, slopes))
    hull: list[int] = []
    for row in order.tolist():
        if hull and slopes[hull[-1]] == slopes[row]:
            continue  # the same slope, and no higher
        while hull and _meeting(fixed, slopes, hull[-1], row) <= (
            _meeting(fixed, slopes, hull[-2], hull[-1]) if len(hull) > 1 else 1.0
        ):
            hull.pop()
        hull.append(row)
    pieces: list[Piece] = []
    for place, row in enumerate(hull):
        first = 1 if not place else math.ceil(_meeting(fixed, slopes, hull[place - 1], row))
        if pieces and pieces[-1].first == first:
            pieces.pop()  # between two whole batches
        pieces.append(Piece(first, Line(float(fixed[row]), float(slopes[row])), where[row]))
    return tuple(pieces)


def _meeting(fixed: Array, slopes: Array, low: int, high: int) -> float:
    """The batch from which on the steeper line is the higher one."""
    return float((fixed[low] - fixed[high]) / (slopes[high] - slopes[low]))


def fit_memory(
    growths: Mapping[int, float], base_bytes: float, records: Mapping[int, BlockRecord] | None = None
) -> MemoryFit:
    """From what a worker's resident memory grew by at some batches, and what its allocator did there."""
    allocator = fit_allocator(records) if records else None
    allocated = {batch: records[batch].peak_bytes if records else 0 for batch in growths}
    rest = fit_line({batch: growth - allocated[batch] for batch, growth in growths.items()})
    return MemoryFit(base_bytes, rest, allocator)


def largest_below(bytes_at: Callable[[int], float], limit_bytes: float) -> int:
    """The largest batch that needs no more than the limit, of a need that does not fall; 0: not even one."""
    low, high = 0, 1
    while bytes_at(high) <= limit_bytes:
        low, high = high, 2 * high
        if low >= MOST_BATCH:
            return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_at(middle) <= limit_bytes else (low, middle)
    return low


def _listed(batches: Sequence[int]) -> str:
    return ", ".join(f"{batch:,}" for batch in batches)
