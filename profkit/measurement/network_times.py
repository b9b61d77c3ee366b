"""How long a network's step takes, and what recording it costs: a Run's samples in, estimates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.capture.run import Run
from profkit.measurement.judging import judge
from profkit.measurement.statistics import Estimate, log_interval, median_of


@dataclass(frozen=True)
class StepTimes:
    """Of unrecorded steps, and ratios to them."""

    step: Estimate | None
    """Median in nanoseconds; None when no step was timed."""
    samples: int
    recording: Mapping[str, Estimate]
    """Recorded / unrecorded by pass; only passes that ran between unrecorded steps of the same process."""
    null: Estimate | None
    """Unrecorded / unrecorded, of the steps before and after the first pass: the noise floor."""


def step_times(run: Run) -> StepTimes:
    """The run alternates: unrecorded steps, a pass, as many unrecorded steps, the next pass, ..."""
    samples = [float(max(1, value)) for value in run.step_ns]
    step = log_interval(np.array(samples), median_of) if samples else None
    size = len(next(iter(run.recorded_step_ns.values()), ()))
    blocks = [samples[at : at + size] for at in range(0, len(samples) - size + 1, size)] if size else []
    ratios = {
        name: _ratio(recorded, [*before, *after])
        for (name, recorded), before, after in zip(run.recorded_step_ns.items(), blocks, blocks[1:])
    }
    null = _ratio(blocks[1], blocks[0]) if len(blocks) > 1 else None
    return StepTimes(step, len(samples), ratios, null)


def _ratio(a: Sequence[float], b: Sequence[float]) -> Estimate:
    return judge(a, b, margin=0.02).ratio
