"""What a caller may choose about a measurement."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from profkit.errors import UsageError
from profkit.measurement.cores import cores_for, default_threads

LONGEST_S = 1_000_000
DEVICES = ("cpu", "cuda", "all")


@dataclass(frozen=True)
class MeasureOptions:
    """Defaults are those of the commands; each field is a flag of the same name."""

    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    baseline: str | None = None
    device: str = "all"
    """`cpu`, `cuda` or `all`: where implementations run; a candidate always takes part."""
    kernel_time: bool = False
    """Whether CUPTI is asked for the time of a GPU call's kernels, after the samples."""
    threads: Sequence[int] = ()
    """Thread counts, one cell each; empty means all usable physical cores."""
    budget_s: float = 20.0
    """Sampling time per cell; starting and checking the implementations comes on top."""
    timeout_s: float = 60.0
    """Longest wait for one answer of one implementation."""
    memory_limit_bytes: int | None = None
    cache: str = "hot"
    output: str = "fresh"
    """`fresh`: every call allocates its output, as frameworks do; `reused` where an implementation can."""
    margin: float = 0.02
    """Differences within this share count as none."""
    candidates: Sequence[str] = ()
    interpreters: Mapping[str, str] = field(default_factory=dict)
    """Framework to Python interpreter: its workers run there, for frameworks that cannot live together."""
    tuned: bool = True
    """Whether native kernels take what profkit.tune chose here; PROFKIT_TUNED=0 says no for all."""
    seed: int = 0
    remeasure_peaks: bool = False

    def __post_init__(self) -> None:
        for name in ("budget_s", "timeout_s"):
            if not 0 < getattr(self, name) <= LONGEST_S:
                raise UsageError(f"{name} must be positive and at most {LONGEST_S}, got {getattr(self, name)}")
        if self.seed < 0:
            raise UsageError(f"seed cannot be negative, got {self.seed}")
        if not 0 < self.margin < 1:
            raise UsageError(f"margin must lie between 0 and 1, got {self.margin}")
        for name, words in (
            ("cache", ("hot", "cold")),
            ("output", ("fresh", "reused")),
            ("device", DEVICES),
        ):
            if getattr(self, name) not in words:
                raise UsageError(f"{name}: expected one of {', '.join(words)}, got {getattr(self, name)!r}")
        if self.memory_limit_bytes is not None and self.memory_limit_bytes < 1:
            raise UsageError(f"memory limit must be positive, got {self.memory_limit_bytes} bytes")
        for threads in self.threads:
            cores_for(threads)
        for framework, interpreter in self.interpreters.items():
            if shutil.which(interpreter) is None:
                raise UsageError(f"no Python interpreter for {framework}: {interpreter} cannot be executed")

    def thread_counts(self) -> Sequence[int]:
        """The thread counts to measure at."""
        return self.threads or (default_threads(),)
