"""How the rows of one result changed against those of another: paired cells in; a / b with verdicts out.

By ratio: each row's time relative to a common row of the same file, which shares the machine's slow changes. By time:
times as they are, which a clock that moved changes too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.result import Cell, Row
from profkit.measurement.statistics.estimates import Centre, Estimate, verdicts
from profkit.measurement.statistics.noise_floor import machine_time_floor

RATIO, TIME = WAYS = ("ratio", "time")
BASELINE = "baseline"
SLOWER = "slower"
TOO_BUSY = "too busy to judge"
Pair = tuple[Cell, Cell]


@dataclass(frozen=True)
class RowChange:
    """What became of one row. `ratio` is a / b, of its time or of its time relative to the baseline's: above 1, b is
    faster.
    """

    verdict: str = ""
    """faster, slower, same, not resolved; `baseline`; empty: not judged."""
    ratio: Estimate | None = None
    reason: str = ""
    """Why it is not judged."""


@dataclass(frozen=True)
class CellChange:
    """The rows that both cells have."""

    baseline: str | None
    """What both sides' times are relative to; None by time, and where there is no such row."""
    rows: dict[str, RowChange] = field(default_factory=dict)
    of_baseline: RowChange | None = None
    """By time: what ratios cannot show."""


@dataclass(frozen=True)
class Changes:
    """Of all cells of two results."""

    by: str
    cells: tuple[CellChange, ...]
    judged: int
    """Rows for whose number verdicts are corrected."""
    failed: tuple[tuple[int, str], ...] = ()
    """Cell and key of the rows that are slower than a limit allows."""


@dataclass(frozen=True)
class _Measured:
    cell: int
    key: str
    ratio: Centre
    floor: float


def changes_of(
    pairs: Sequence[Pair], by: str, margin: float, limit: float | None = None, despite_trouble: bool = False
) -> Changes:
    """Verdicts row by row, corrected (Holm) for the number of rows of all cells; rows that fail a limit likewise.

    Of cells that were too busy to judge, a / b is shown without a verdict unless `despite_trouble`.
    """
    cells, measured = [], []
    for number, pair in enumerate(pairs):
        baseline = common_baseline(pair) if by == RATIO else None
        rows: dict[str, RowChange] = {}
        for row_a, row_b in _common_rows(pair):
            reason = _not_judged(pair, row_a, row_b, baseline, by)
            found = None if reason else _measured(number, pair, (row_a, row_b), baseline)
            if row_a.key == baseline:
                rows[row_a.key] = RowChange(BASELINE, reason=reason)
            elif found is None:
                rows[row_a.key] = RowChange(reason=reason or "no undisturbed samples are kept")
            else:
                busy = "" if despite_trouble else _too_busy(pair)
                rows[row_a.key] = RowChange("not resolved", found.ratio.estimate(found.floor), busy)
                measured += [] if busy else [found]
        cells.append(CellChange(baseline, rows, None if baseline is None else _own_change(pair, baseline, margin)))
    for found, word in zip(measured, _verdicts(measured, margin)):
        rows = cells[found.cell].rows
        rows[found.key] = RowChange(word, rows[found.key].ratio)
    failed = [] if limit is None else _verdicts(measured, limit)
    return Changes(
        by,
        tuple(cells),
        len(measured),
        tuple((found.cell, found.key) for found, word in zip(measured, failed) if word == SLOWER),
    )


def common_baseline(pair: Pair) -> str | None:
    """A row that both can be compared with: the baseline of a, or that of b."""
    for key in (cell.baseline for cell in pair):
        rows = [next((row for row in cell.rows if row.key == key), None) for cell in pair]
        if key is not None and all(row is not None and row.status == "ok" and row.samples_ns for row in rows):
            return key
    return None


def _common_rows(pair: Pair) -> list[tuple[Row, Row]]:
    later = {row.key: row for row in pair[1].rows}
    return [(row, later[row.key]) for row in pair[0].rows if row.key in later]


def _not_judged(pair: Pair, a: Row, b: Row, baseline: str | None, by: str) -> str:
    """Why these rows have no verdict; empty when they may have one."""
    for side, row in zip("ab", (a, b)):
        if row.status != "ok":
            return f"{row.status} in {side}"
        if row.doubts:
            return f"in doubt in {side}"
    if _is_by_wall(a) != _is_by_wall(b):
        return "timed by events in one, by the wall clock in the other"
    if by == RATIO and baseline is None:
        return "no baseline that both have"
    if by == RATIO and any(_is_by_wall(row) != _is_by_wall(cell.row(str(baseline))) for row, cell in zip((a, b), pair)):
        return "timed by another clock than the baseline"
    return ""


def _too_busy(pair: Pair) -> str:
    busy = [side for side, cell in zip("ab", pair) if cell.is_too_busy]
    return f"{TOO_BUSY}: {' and '.join(busy)}" if busy else ""


def _is_by_wall(row: Row) -> bool:
    return row.timing.startswith(WALL_CLOCK)


def _measured(number: int, pair: Pair, rows: tuple[Row, Row], baseline: str | None) -> _Measured | None:
    if baseline is None:
        centres = [cell.time_centre(row) for cell, row in zip(pair, rows)]
        floors = [machine_time_floor()[0]] * 2
    else:
        # Time relative to the baseline's: the other way round than the ratio of a table.
        centres = [cell.ratio_centre(row, cell.row(baseline)) for cell, row in zip(pair, rows)]
        floors = [cell.floor for cell in pair]
    a, b = centres
    return None if a is None or b is None else _Measured(number, rows[0].key, a.over(b), math.hypot(*floors))


def _own_change(pair: Pair, baseline: str, margin: float) -> RowChange | None:
    """The baseline's own times."""
    found = _measured(0, pair, (pair[0].row(baseline), pair[1].row(baseline)), None)
    if found is None or any(cell.is_too_busy for cell in pair):
        return None
    return RowChange(verdicts([found.ratio], found.floor, margin)[0], found.ratio.estimate(found.floor))


def _verdicts(rows: Sequence[_Measured], margin: float) -> list[str]:
    return verdicts([row.ratio for row in rows], [row.floor for row in rows], margin)
