"""What a caller may choose about a measurement."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from profkit.errors import UsageError
from profkit.measurement.cores import cores_for, default_threads

LONGEST_S = 1_000_000
ALL_DEVICES = "all"
DEVICES = ("cpu", "cuda", ALL_DEVICES)
CACHES, OUTPUTS = ("hot", "cold"), ("fresh", "reused")


@dataclass(frozen=True)
class MeasureOptions:
    """Defaults are those of the commands; each field is a flag of the same name."""

    all: bool = False
    """Every row instead of the default ones; `only` goes before it."""
    only: Sequence[str] = ()
    exclude: Sequence[str] = ()
    baseline: str | None = None
    explain: bool = False
    """Whether all native rows take part, so that the policy is not judged by what it chose itself."""
    device: str = ALL_DEVICES
    """`cpu`, `cuda` or `all`: where implementations run; a candidate always takes part."""
    kernel_time: bool = False
    """Whether CUPTI is asked for the time of a GPU call's kernels, after the samples."""
    threads: Sequence[int] = ()
    """Thread counts, one cell each; empty means all usable physical cores."""
    budget_s: float = 15.0
    """Sampling time per cell; starting and checking the implementations comes on top."""
    timeout_s: float = 60.0
    """Longest wait for one answer of one implementation."""
    memory_limit_bytes: int | None = None
    cache: Sequence[str] = ("hot",)
    """`hot`, `cold` or both, one cell each."""
    output: Sequence[str] = ("fresh",)
    """`fresh`: every call allocates its output, as frameworks do; `reused` where an implementation can; or both."""
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
            if not (_is_number(getattr(self, name)) and 0 < getattr(self, name) <= LONGEST_S):
                raise UsageError(f"{name} must be positive and at most {LONGEST_S}, got {getattr(self, name)!r}")
        if not _is_whole(self.seed) or self.seed < 0:
            raise UsageError(f"seed is a whole number and cannot be negative, got {self.seed!r}")
        if not (_is_number(self.margin) and 0 < self.margin < 1):
            raise UsageError(f"margin must lie between 0 and 1, got {self.margin!r}")
        for name in ("only", "exclude", "candidates", "cache", "output"):
            _check_list(name, getattr(self, name), _is_word, "words")
        _check_list("threads", self.threads, _is_whole, "whole numbers")
        if self.baseline is not None and not _is_word(self.baseline):
            raise UsageError(f"baseline: expected one word, got {self.baseline!r}")
        for name, words, given in (
            ("cache", CACHES, self.cache),
            ("output", OUTPUTS, self.output),
            ("device", DEVICES, [self.device]),
        ):
            wrong = [repr(word) for word in given if word not in words]
            if wrong or not given:
                raise UsageError(f"{name}: expected one of {', '.join(words)}, got {wrong[0] if wrong else 'nothing'}")
        limit = self.memory_limit_bytes
        if limit is not None and not (_is_whole(limit) and limit > 0):
            raise UsageError(f"memory_limit_bytes must be a positive whole number, got {limit!r}")
        for threads in self.threads:
            cores_for(threads)
        for framework, interpreter in self.interpreters.items():
            if shutil.which(interpreter) is None:
                raise UsageError(f"no Python interpreter for {framework}: {interpreter} cannot be executed")

    def thread_counts(self) -> Sequence[int]:
        """The thread counts to measure at."""
        return self.threads or (default_threads(),)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_word(value: object) -> bool:
    return isinstance(value, str)


def _check_list(name: str, given: object, is_right: Callable[[object], bool], expected: str) -> None:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(f"{name}: expected a list of {expected}, got {given!r}")
    wrong = [repr(item) for item in given if not is_right(item)]
    if wrong:
        raise UsageError(f"{name}: expected {expected}, got {wrong[0]}")
