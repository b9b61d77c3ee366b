"""The fastest native kernel of an operator, measured once per machine, build and thread count, and then remembered."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from profkit import _core
from profkit.capture.busy_machine import BUSY_LOAD
from profkit.capture.checked_json import fits, read_kept
from profkit.capture.run import LATER
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.cache import cache_folder
from profkit.frameworks.machine import build_id
from profkit.measurement.cores import cores_for, usable_cpus
from profkit.measurement.environment import machine_id
from profkit.measurement.peaks import write_known
from profkit.measurement.statistics.estimates import log_interval, median_of
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings
from profkit.measurement.workers.protocol import Message
from profkit.measurement.workers.requests import ask_one
from profkit.ops.spec import Spec

KernelTime = dict[str, Any]
"""key, native_ns (interval low_ns, high_ns), one_thread_ns, workspace_bytes, error, others_ns, failed; and the load.

Of one that is LATER also `cut_s`: the longest time that its measurement was given before a limit ended it.
"""
QUIETER = 0.6
"""Times of a busy machine are measured again when the load is below this share of what it was then."""
DIED = "all"
"""In `failed`: the process that measured ended, and why."""
ANSWER_S = 120.0
"""Longest wait for one operator, its float64 reference included."""


class _Cut(TypedDict, total=False):
    cut_s: float


class _Known(_Cut):
    """What is read of an entry of the cache file."""

    load: float
    failed: dict[str, str]


class _Found(_Known):
    """Where a kernel could run."""

    key: str
    native_ns: float
    one_thread_ns: float
    workspace_bytes: int


def kernel_times(
    specs: Iterable[Spec],
    threads: int,
    budget_s: float,
    tell: Callable[[str], None],
    remeasure: bool = False,
    limit_s: float = math.inf,
) -> dict[Spec, KernelTime]:
    """The best kernel of every spec; only unknown ones are measured, in their order, within about `budget_s` of
    sampling. What is not measured after `limit_s` is LATER; what the limit cut short comes last in the next call, or it
    would take all the time again. Whatever ends it, what was measured is remembered.
    """
    path = cache_folder() / "kernels.json"
    remembered = {} if remeasure else _read(path)
    place = f"{machine_id()} | {build_id(_core)} | {threads} threads | "
    wanted = {spec: place + json.dumps(spec.to_dict(), sort_keys=True) for spec in specs}
    load = os.getloadavg()[0]
    unknown = [spec for spec, name in wanted.items() if _is_due(remembered.get(name), load)]
    unknown.sort(key=lambda spec: remembered.get(wanted[spec], {}).get("cut_s", 0.0))
    found: dict[str, KernelTime] = {}
    answers = _measured(unknown, threads, budget_s / max(1, len(unknown)), tell, time.monotonic() + limit_s)
    try:
        for spec, answer in answers:
            before = remembered.get(wanted[spec])
            entry = {**kernel_time(answer, threads), "load": load}
            if LATER in entry["failed"]:
                if before is not None and LATER not in before["failed"]:
                    continue  # a doubtful time is better than none
                entry["cut_s"] = max((before or {}).get("cut_s", 0.0), answer["given_s"])
            found[wanted[spec]] = entry
    finally:
        answers.close()
        if found:
            _remember(path, found)
    times = {**remembered, **found}
    return {spec: times[name] for spec, name in wanted.items()}


def _is_due(entry: KernelTime | None, load: float) -> bool:
    return entry is None or LATER in entry["failed"] or is_doubtful(entry["load"], load)


def _remember(path: Path, times: Mapping[str, KernelTime]) -> None:
    # Read again: another run may have written meanwhile. Entries of older builds on this machine are removed.
    mine = f"{machine_id()} | "
    kept = {n: v for n, v in _read(path).items() if not n.startswith(mine) or n.startswith(mine + build_id(_core))}
    # A process that died says nothing about the kernel: it is tried again next time.
    known = {name: entry for name, entry in times.items() if not {DIED, LATER} & entry["failed"].keys()}
    for name, entry in times.items():
        if entry.get("cut_s") and (name not in kept or LATER in kept[name]["failed"]):
            known[name] = entry
    write_known(path, {**kept, **known})


def kernel_time(answer: Mapping[str, Any], threads: int) -> KernelTime:
    """The fastest of the measured kernels and what is known of the others; key is None when none could run."""
    medians = {key: float(np.median(entry["samples_ns"])) for key, entry in answer["kernels"].items()}
    others = {**answer["slower_ns"], **medians}
    best = min(medians, key=lambda key: medians[key], default=None)
    if best is None:
        return {"key": None, "native_ns": None, "failed": answer["failed"]}
    entry = answer["kernels"][best]
    estimate = log_interval(np.array(entry["samples_ns"]), median_of)
    alone = answer["one_thread_samples_ns"]
    return {
        "key": best,
        "native_ns": estimate.value,
        "low_ns": estimate.low,
        "high_ns": estimate.high,
        "one_thread_ns": estimate.value if threads == 1 else float(np.median(alone)),
        "workspace_bytes": entry["workspace_bytes"],
        "error": entry["error"],
        "others_ns": {key: value for key, value in others.items() if key != best},
        "failed": answer["failed"],
    }


def is_doubtful(load_then: float, load_now: float) -> bool:
    """Whether times of a busy machine can be had better now."""
    return load_then > BUSY_LOAD * len(usable_cpus()) and load_now < QUIETER * load_then


def _measured(
    specs: Sequence[Spec], threads: int, budget_s: float, tell: Callable[[str], None], deadline: float
) -> Generator[tuple[Spec, Message], None, None]:
    """One process measures all; where a kernel ends it, the next spec gets a new one."""
    worker: WorkerProcess | None = None
    try:
        for number, spec in enumerate(specs, start=1):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                yield spec, _without_time(LATER, "the time was over")
                continue
            direction = getattr(spec, "direction", "forward")
            words = spec.op + ("" if direction == "forward" else f", {direction}")
            tell(f"native kernels, operator {number} of {len(specs)}: {words}")
            worker = worker or _start(threads)
            request = {"do": "measure", "spec": spec.to_dict(), "threads": threads, "budget_s": budget_s}
            try:
                yield spec, ask_one(worker, min(left_s, ANSWER_S + budget_s), request)
            except WorkerFailure as failure:
                is_late = time.monotonic() >= deadline
                reason = "the time was over" if is_late else f"{failure.status}: {failure.reason}"
                yield spec, _without_time(LATER if is_late else DIED, reason, left_s)
                worker.kill()
                worker = None
    finally:
        if worker is not None:
            worker.kill()


def _without_time(name: str, reason: str, given_s: float = 0.0) -> Message:
    nothing: Message = {"kernels": {}, "slower_ns": {}, "one_thread_samples_ns": []}
    return {**nothing, "failed": {name: reason}, "given_s": given_s}


def _start(threads: int) -> WorkerProcess:
    settings = WorkerSettings(threads, cores_for(threads), worker="profkit.measurement.workers.kernel")
    return WorkerProcess(Implementation("kernels/native/cpu", "native"), settings)


def _read(path: Path) -> dict[str, KernelTime]:
    """The contents of the cache file; a missing or damaged file counts as empty, a damaged entry as missing."""
    return {
        name: entry
        for name, entry in read_kept(path).items()
        if fits(entry, _Found) or (fits(entry, _Known) and entry.get("native_ns", "") is None)
    }
