"""Two tables of times that were not taken in turns: ratios of their rows, verdicts, and what would resolve them.

A side of a row is a series of times per process, in order. Where a process has one value or many, its centre is one
value; several processes vary as they do, one is judged by its own long-run variance (statistics.centre_of).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit.measurement.statistics.estimates import (
    NOT_RESOLVED,
    Centre,
    Estimate,
    Floats,
    centre_of,
    times_longer,
    verdicts,
)
from profkit.measurement.statistics.student import DOUBT

Processes = Sequence[Sequence[float]]
FIRST_SAMPLES = 12
"""The number of samples recommended where there is only one."""
MOST_SAMPLES, MOST_RUNS = 10_000, 30
"""Beyond this, a quieter machine helps and more do not."""


@dataclass(frozen=True)
class Judgement:
    """Typical values of both sides, a / b with its interval, and what can be said of it."""

    a: float
    b: float
    ratio: Estimate
    verdict: str  # faster, slower (b than a), same, not resolved
    samples_needed: int | None = None
    """Of each side, when not resolved: about this number would resolve it; None if resolved, or if none would."""
    runs_needed: int | None = None
    """The same as a number of processes, where both sides have several."""


def judge_tables(
    rows: Sequence[tuple[Processes, Processes]], has_whole: bool, margin: float, floor: float
) -> list[Judgement]:
    """Compare the rows of two tables, of which the first may be the whole; `floor` is of one side.

    In a share of DOUBT of all tables in which nothing changed by more than the margin, something is called faster or
    slower: half of it is given to the first row, half is shared by the others.
    """
    centres = [(_centre(a), _centre(b)) for a, b in rows]
    both = math.sqrt(2.0) * floor
    ratios = [a.over(b) for a, b in centres]
    if has_whole:
        words = verdicts(ratios[:1], both, margin, DOUBT / 2.0) + verdicts(ratios[1:], both, margin, DOUBT / 2.0)
    else:
        words = verdicts(ratios, both, margin)
    return [
        _judgement(sides, centre, ratio, word, both, margin)
        for sides, centre, ratio, word in zip(rows, centres, ratios, words)
    ]


def ratio_of_samples(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """a / b of samples of one process, taken within the same minute: no floor is added."""
    return _centre([a]).over(_centre([b])).estimate(0.0)


def _judgement(
    sides: tuple[Processes, Processes], centres: tuple[Centre, Centre], ratio: Centre, word: str, floor: float,
    margin: float,
) -> Judgement:  # fmt: skip
    a, b = (math.exp(centre.log) for centre in centres)
    found = Judgement(a, b, ratio.estimate(floor), word)
    if word != NOT_RESOLVED:
        return found
    runs = min(len(side) for side in sides)
    if runs > 1:
        return Judgement(a, b, found.ratio, word, runs_needed=_needed(ratio, floor, margin, runs, MOST_RUNS))
    if ratio.error is None:
        return Judgement(a, b, found.ratio, word, FIRST_SAMPLES)
    count = min(sum(map(len, side)) for side in sides)
    return Judgement(a, b, found.ratio, word, _needed(ratio, floor, margin, count, MOST_SAMPLES))


def _needed(ratio: Centre, floor: float, margin: float, count: int, most: int) -> int | None:
    longer = times_longer(ratio, floor, margin)
    needed = None if longer is None else math.ceil(max(longer, 1.2) * count)
    return needed if needed is not None and needed <= most else None


def _centre(processes: Processes) -> Centre:
    found = centre_of([_logs(samples) for samples in processes])
    assert found is not None, "a row has at least one sample"
    return found


def _logs(samples: Sequence[float]) -> Floats:
    """Zero counts as one: no clock resolves less than a nanosecond."""
    return np.log(np.maximum(np.asarray(samples, np.float64), 1.0))
