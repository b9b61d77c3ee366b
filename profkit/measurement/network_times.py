"""How long a network's step takes, and what recording it costs: a Run's samples in, estimates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.capture.run import Run
from profkit.measurement.statistics.estimates import Estimate, centre_of
from profkit.measurement.statistics.judging import ratio_of_samples
from profkit.measurement.statistics.noise_floor import machine_time_floor


@dataclass(frozen=True)
class StepTimes:
    """Of unrecorded steps, and ratios to them."""

    step: Estimate | None
    """Mean of the middle half in nanoseconds; of several processes the mean of theirs. None: no step was timed."""
    samples: int
    processes: Sequence[float]
    """That of each process."""
    recording: Mapping[str, Estimate]
    """Recorded / unrecorded by pass; only passes that ran between unrecorded steps of the same process."""
    null: Estimate | None
    """Unrecorded / unrecorded, of the steps before and after the first pass: the noise floor of these ratios."""


def step_times(run: Run) -> StepTimes:
    """Each process alternates: unrecorded steps, a pass, as many unrecorded steps, the next pass, ...

    The cost of recording is that of the first process; the interval of the step covers all.
    """
    series = [[float(max(1, value)) for value in steps] for steps in run.process_steps() if steps]
    logs = [np.log(steps) for steps in series]
    centre = centre_of(logs)
    typical = [found.estimate(0.0).value for each in logs if (found := centre_of([each])) is not None]
    step = None if centre is None else centre.estimate(machine_time_floor()[0])
    first = series[0] if series else []
    recorded = {name: processes[0] for name, processes in run.process_recorded().items() if processes[0]}
    size = len(next(iter(recorded.values()), ()))
    blocks = [first[at : at + size] for at in range(0, len(first) - size + 1, size)] if size else []
    ratios = {
        name: ratio_of_samples(steps, [*before, *after])
        for (name, steps), before, after in zip(recorded.items(), blocks, blocks[1:])
    }
    null = ratio_of_samples(blocks[1], blocks[0]) if len(blocks) > 1 else None
    return StepTimes(step, sum(map(len, series)), typical, ratios, null)
