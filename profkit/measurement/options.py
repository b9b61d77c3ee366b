"""The options of a measurement."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profkit.errors import UsageError
from profkit.measurement.cores import cores_for, default_threads

LONGEST_S = 1_000_000
ALL_DEVICES = "all"
DEVICES = ("cpu", "cuda", ALL_DEVICES)
CACHES, OUTPUTS = ("hot", "cold"), ("fresh", "reused")


COMPARED = "what is compared (keys like torch/cpu/channels_last, with * as wildcard)"
MEASURED, SHOWN, RUN, OPTIONS = "how it is measured", "what is shown and saved", "how it runs", "options"
"""Groups of flags."""
SECONDS, BYTES, SIZE, SHARE, WHOLE = "seconds", "bytes", "size", "share", "whole"
KEY, KEYS, FILES, COUNTS, PROGRAMS = "key", "keys", "files", "counts", "programs"
CACHE, OUTPUT, COLUMNS, WORDS, FOLDER, PATH = "cache", "output", "columns", "words", "folder", "path"
"""Forms in which an option is typed; without one it is a flag, a choice, or the name of a file."""


def option(
    default: Any,
    group: str,
    help: str,
    *,
    form: str = "",
    flag: str = "",
    letter: str = "",
    shown: str = "",
    choices: Sequence[str] = (),
) -> Any:
    """A field that is also a flag: `--<name>` without its unit, or `flag`; `shown` is what the default means."""
    facts = {"group": group, "help": help, "form": form, "flag": flag, "shown": shown, "choices": choices}
    facts["letter"] = letter
    return field(default_factory=dict, metadata=facts) if default == {} else field(default=default, metadata=facts)


@dataclass(frozen=True)
class MeasureOptions:
    """Each field is a flag of the operators' commands, with its help, and a keyword argument of profkit.measure."""

    all: bool = option(
        False,
        COMPARED,
        "measure every row: reference kernels, eager modes, all Keras backends, all native kernels",
        shown="one row per framework and mode in use, the three native kernels expected to be fastest",
    )
    only: Sequence[str] = option((), COMPARED, "measure only these, default or not", form=KEYS)
    exclude: Sequence[str] = option((), COMPARED, "exclude these", form=KEYS)
    baseline: str | None = option(
        None, COMPARED, "the row that ratios refer to", form=KEY, shown="torch, or the best-known framework measured"
    )
    device: str = option(ALL_DEVICES, COMPARED, "measure rows on these devices", choices=DEVICES)
    """A candidate always takes part."""
    candidates: Sequence[str] = option(
        (), COMPARED, "your own kernel, a .py, C/C++ or .cu file; may be repeated", form=FILES, flag="candidate"
    )
    threads: Sequence[int] = option(
        (), MEASURED, "threads of each implementation", form=COUNTS, shown="all usable cores"
    )
    """One cell each; empty means all usable physical cores."""
    budget_s: float = option(15.0, MEASURED, "sampling time per table", form=SECONDS)
    """Starting and checking the implementations comes on top."""
    again: int = option(0, MEASURED, "repeat the sampling of all rows N times", form=WHOLE)
    """Each run then counts as one value, with Student's t over runs. One more says little: intervals become wider."""
    timeout_s: float = option(60.0, MEASURED, "time limit for an answer of a worker", form=SECONDS)
    memory_limit_bytes: int | None = option(
        None, MEASURED, "memory limit of each worker, as 4GiB", form=BYTES, shown="none"
    )
    cache: Sequence[str] = option(("hot",), MEASURED, "state of the caches", form=CACHE)
    """`hot`, `cold` or both, one cell each."""
    output: Sequence[str] = option(
        ("fresh",),
        MEASURED,
        "allocate the output in each call, or reuse one where an implementation can",
        form=OUTPUT,
    )
    """Or both, one cell each."""
    margin: float = option(0.02, MEASURED, "smaller differences count as the same", form=SHARE)
    interpreters: Mapping[str, str] = option(
        {},
        MEASURED,
        "run a framework's worker under another Python, which needs no profkit; may be repeated",
        form=PROGRAMS,
        flag="python",
    )
    tuned: bool = option(True, MEASURED, "ignore the block sizes that profkit tune chose")
    """PROFKIT_TUNED=0 says no for all."""
    kernel_time: bool = option(False, MEASURED, "also measure the kernels of a GPU call with CUPTI")
    """After the samples."""
    seed: int = option(0, MEASURED, "seed of the random inputs", form=WHOLE)
    remeasure_peaks: bool = option(False, MEASURED, "measure this machine's peaks again")
    explain: bool = option(
        False,
        SHOWN,
        "show which native kernel profkit would choose, why, and whether measuring all of them agrees",
    )
    """All native rows take part, so that the policy is not judged by what it chose itself."""

    def __post_init__(self) -> None:
        for name in ("budget_s", "timeout_s"):
            if not (_is_number(getattr(self, name)) and 0 < getattr(self, name) <= LONGEST_S):
                raise UsageError(f"{name} must be positive and at most {LONGEST_S}, got {getattr(self, name)!r}")
        for name in ("seed", "again"):
            _check_count(name, getattr(self, name))
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


def _check_count(name: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise UsageError(f"{name} is a whole number and cannot be negative, got {given!r}")


def _check_list(name: str, given: object, is_right: Callable[[object], bool], expected: str) -> None:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(f"{name}: expected a list of {expected}, got {given!r}")
    wrong = [repr(item) for item in given if not is_right(item)]
    if wrong:
        raise UsageError(f"{name}: expected {expected}, got {wrong[0]}")
