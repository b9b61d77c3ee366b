"""What is asked of a search, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profkit.errors import UsageError
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement.largest_batch.fit import MemoryFit
from profkit.measurement.options import RUN, SECONDS, SHARE, SIZE, WHOLE, option
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training

OK, OOM = "ok", "oom"
SMALL, PREDICTED, ABOVE, BELOW, PLAIN = "small", "predicted", "above", "below", "plain"
"""Roles of a trial: the fit is made from the small ones, the next three confirm it; the last has the heap as it is."""
LEAST_STEPS = 2
"""The optimiser's state comes in the first step; the gradients beside it in the second."""


@dataclass(frozen=True)
class MaxBatchRequest:
    """The request for the largest batch; the network's own batch does not count."""

    network: Network
    framework: str
    mode: str = ""
    threads: int = 1
    is_training: bool = option(False, RUN, "forward, backward and optimiser instead of inference", flag="training")
    training: Training = field(default_factory=Training)
    memory_bytes: int | None = option(
        None,
        RUN,
        "memory that the process may have resident, as 4GiB",
        form=SIZE,
        shown="what is free here, less a reserve",
    )
    precision: float = option(0.02, RUN, "how near the smallest batch that fails is to be", form=SHARE)
    steps: int = option(LEAST_STEPS, RUN, "steps per process", form=WHOLE)
    has_steady_heap: bool = option(
        True,
        RUN,
        "leave the C library's heap as it is: the same steps then take more, and differ by a tenth from run to run",
        flag="steady-heap",
    )
    timeout_s: float = option(600.0, RUN, "time limit for the steps of a process", form=SECONDS)
    python: str | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes is not None and self.memory_bytes <= 0:
            raise UsageError(f"memory_bytes must be positive, got {self.memory_bytes!r}")
        if not 0.0 <= self.precision < 1.0:
            raise UsageError(f"precision must be a share below 1, got {self.precision!r}")
        if not self.timeout_s > 0.0:
            raise UsageError(f"timeout_s must be positive, got {self.timeout_s!r}")
        if self.steps < LEAST_STEPS:
            raise UsageError(
                f"--steps takes a number from {LEAST_STEPS} on (memory grows until then), got {self.steps}"
            )

    @property
    def conditions(self) -> NetworkConditions:
        """As the worker gets them."""
        mode = self.mode or load_builder(self.framework).modes[0]
        return NetworkConditions(self.threads, mode, self.is_training, self.training)

    def network_of(self, batch: int) -> Network:
        return self.network.replaced(batch=batch)


@dataclass(frozen=True)
class Trial:
    """A process that ran some steps at one batch, or failed to."""

    batch: int
    role: str
    status: str = OK
    reason: str = ""
    base_bytes: int = 0
    """Resident before there was a model."""
    resident_bytes: int | None = None
    """At its peak."""
    allocator_bytes: int | None = None
    """At the allocator's own peak."""

    @property
    def growth_bytes(self) -> int | None:
        return None if self.resident_bytes is None else self.resident_bytes - self.base_bytes


@dataclass
class MaxBatch:
    """What was found; `largest` ran within the limit in a process of its own."""

    network: dict[str, Any]
    framework: str
    mode: str
    threads: int
    is_training: bool
    training: dict[str, Any]
    limit_bytes: int
    limit_from: str
    precision: float
    steps: int
    heap: dict[str, str]
    """Variables of the C library with which the processes ran, but for the plain one."""
    status: str = OK  # ok, oom (not even 1), failed, timeout, crashed, interrupted
    reason: str = ""
    predicted: int | None = None
    largest: int | None = None
    too_large: int | None = None
    """The smallest batch that was seen to fail."""
    fit: MemoryFit | None = None
    trials: list[Trial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    def with_role(self, *roles: str) -> Sequence[Trial]:
        return [trial for trial in self.trials if trial.role in roles]

    def add(self, trial: Trial) -> None:
        """In order of time."""
        limit = self.limit_bytes
        if trial.resident_bytes is not None and trial.status == OK and trial.resident_bytes > limit:
            trial = replace(trial, status=OOM, reason="its peak between two looks was above the limit")
        self.trials.append(trial)
