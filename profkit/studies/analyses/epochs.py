"""Time of an epoch as a study counts it: steps times the measured step, and images per second."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.studies.declaration import Epoch


@dataclass(frozen=True)
class EpochTime:
    """Computed, not run: so many steps of the measured length."""

    steps: int
    """Of all epochs."""
    seconds: float
    """Of all epochs."""
    epoch_s: float
    """Of one."""
    images_per_s: float
    """Images of an epoch times epochs over the time."""


def epoch_time(epoch: Epoch, batch: int, fraction: float, step_ns: float) -> EpochTime | None:
    """None where no batch is full."""
    steps = epoch.steps(batch, fraction)
    if not steps:
        return None
    seconds = steps * step_ns / 1e9
    return EpochTime(steps, seconds, seconds / epoch.epochs, epoch.counted_images(fraction) * epoch.epochs / seconds)
