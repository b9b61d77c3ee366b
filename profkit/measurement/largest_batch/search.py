"""The search: three small batches, a fit, a prediction, and its confirmation in fresh processes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace

from profkit.errors import UnavailableError, UnsupportedError, UsageError, unknown
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import reason_against
from profkit.measurement.environment import fingerprint, free_memory_bytes, memory_bytes
from profkit.measurement.largest_batch.fit import BlockRecord, MemoryFit, fit_memory, largest_below
from profkit.measurement.largest_batch.request import (
    ABOVE,
    BELOW,
    OK,
    OOM,
    PLAIN,
    PREDICTED,
    SMALL,
    MaxBatch,
    MaxBatchRequest,
)
from profkit.measurement.largest_batch.trial import Outcome, heap_of, run_trial
from profkit.ops.networks.memory import NetworkMemory, network_memory

SMALL_SHARES = (64, 32, 3)
"""The small batches are these parts: two of what the formulas say, the last of what those two predict."""
MOST_CONFIRMATIONS, NEAR_MISSES = 12, 2
"""After so many near misses the interval is halved."""
RESERVE_SHARE = 0.05
"""Of the machine's memory, left to others."""

TrialRunner = Callable[[int, str], Outcome]
"""Runs one batch in one role."""
MessageCallback = Callable[[str, float], None]
"""What is being done, and how far it is, 0 to 1."""


class InterruptedSearch(KeyboardInterrupt):
    """Ctrl-C during a search; `found` has what was measured until then."""

    def __init__(self, found: MaxBatch) -> None:
        super().__init__()
        self.found = found


def find_max_batch(request: MaxBatchRequest, tell: MessageCallback = lambda _, __: None) -> MaxBatch:
    """UsageError where not even the weights fit, UnavailableError or UnsupportedError where the framework cannot."""
    _check_framework(request)
    reserve = int(RESERVE_SHARE * (memory_bytes() or 0))
    free = max(0, (free_memory_bytes() or 0) - reserve)
    limit, source = _limit(request, free)
    needs = memory_by_formula(request)
    _check_model(request, needs(1), limit, source)
    conditions = request.conditions
    found = MaxBatch(
        request.network.to_dict(),
        request.framework,
        conditions.mode,
        request.threads,
        request.is_training,
        request.training.field_values() if request.is_training else {},
        limit,
        source,
        request.precision,
        request.steps,
        heap_of(request),
        environment=fingerprint(),
    )
    del found.network["batch"]

    def run(batch: int, role: str) -> Outcome:
        done = len(found.trials) / (len(SMALL_SHARES) + 4)
        tell(f"{request.framework}: batch {batch:,} ({role})", min(0.95, done))
        return run_trial(request, batch, role, limit, reserve)

    try:
        search(found, run, largest_below(lambda batch: needs(batch).total, limit))
    except KeyboardInterrupt:
        found.status, found.reason = "interrupted", "stopped by the user"
        raise InterruptedSearch(found) from None
    return found


def _check_framework(request: MaxBatchRequest) -> None:
    builder = load_builder(request.framework)
    if request.conditions.mode not in builder.modes:
        raise UsageError(unknown(f"{request.framework} mode", request.conditions.mode, builder.modes))
    availability = builder.is_available() if request.python is None else None
    if availability is not None and not availability.available:
        raise UnavailableError(f"{request.framework}: {availability.text}")
    reason = reason_against(builder, request.network, request.conditions)
    if reason:
        raise UnsupportedError(reason)


def _limit(request: MaxBatchRequest, free: int) -> tuple[int, str]:
    if request.memory_bytes is None:
        return free, "free on this machine, less 5 % of all memory for others"
    if request.memory_bytes > free:
        raise UsageError(
            f"--memory {_gib(request.memory_bytes)}: this machine has {_gib(free)} free, less 5 % of all memory for "
            "others; a batch that is confirmed must really run"
        )
    return request.memory_bytes, "--memory"


def memory_by_formula(request: MaxBatchRequest) -> Callable[[int], NetworkMemory]:
    """What a batch needs at least; a line, from two batches."""
    training = request.training if request.is_training else None
    one, two = (network_memory(request.network_of(batch), training) for batch in (1, 2))
    each = two.activations - one.activations
    return lambda batch: replace(one, activations=one.activations + (batch - 1) * each)


def _check_model(request: MaxBatchRequest, need: NetworkMemory, limit: int, source: str) -> None:
    if need.total > limit:
        raise UsageError(
            f"{request.network.name} takes at least {_mib(need.total)} at batch 1 (weights {_mib(need.weights)}, "
            f"gradients {_mib(need.gradients)}, optimiser {_mib(need.optimiser)}, results {_mib(need.activations)}), "
            f"more than the limit of {_mib(limit)} ({source})"
        )


# --- The search itself ---


def search(found: MaxBatch, run: TrialRunner, estimate: int) -> None:
    """Fills `found`; `estimate` is the batch that formulas give."""
    records = _measure_small(found, run, max(1, estimate))
    small = [trial for trial in found.with_role(SMALL) if trial.status == OK]
    last = found.trials[-1]
    if not small:
        found.status, found.reason = last.status, last.reason
        return
    fails = min((trial.batch for trial in found.with_role(SMALL) if trial.status == OOM), default=None)
    if last.status not in (OK, OOM):  # a line through fewer would promise anything
        found.status, found.reason = last.status, f"batch {last.batch:,}: {last.reason}"
        found.largest, found.too_large = max(trial.batch for trial in small), fails
        return
    found.fit = fit_of(found, records)
    found.predicted = largest_below(found.fit.resident, found.limit_bytes)
    if fails is not None:
        found.predicted = min(found.predicted, fails - 1)
    _confirm(found, run, max(trial.batch for trial in small), fails)
    has_other_heap = bool(found.heap.items() - os.environ.items())
    if has_other_heap and found.status == OK and found.largest is not None:
        found.add(run(found.largest, PLAIN).trial)


def fit_of(found: MaxBatch, records: dict[int, BlockRecord]) -> MemoryFit:
    """From the small batches."""
    small = [trial for trial in found.with_role(SMALL) if trial.status == OK]
    growths = {trial.batch: float(trial.growth_bytes or 0) for trial in small}
    base = max(trial.base_bytes for trial in small)
    return fit_memory(growths, base, records if len(records) == len(small) else None)


def small_batch(found: MaxBatch, records: dict[int, BlockRecord], estimate: int) -> int:
    """The next small one, 0 when there is none: parts of what the formulas say, then of what the line through those
    predicts; below the smallest where one did not fit: next to one that ran, noise would decide the slope.
    """
    small = found.with_role(SMALL)
    ran = [trial.batch for trial in small if trial.status == OK]
    if len(ran) == len(SMALL_SHARES) - 1:
        estimate = largest_below(fit_of(found, records).resident, found.limit_bytes)
    batch, least = estimate // SMALL_SHARES[len(ran)], max(ran, default=0) + 1
    fails = min((trial.batch for trial in small if trial.status == OOM), default=None)
    if fails is None or least <= batch < fails:
        return max(batch, least)
    below = min(ran, default=fails) // 2
    return below or (least if least < fails else 0)


def _measure_small(found: MaxBatch, run: TrialRunner, estimate: int) -> dict[int, BlockRecord]:
    """Three that ran, or fewer where there are no smaller ones; a failure other than of memory ends the series."""
    records: dict[int, BlockRecord] = {}
    ran = 0
    while ran < len(SMALL_SHARES) and (batch := small_batch(found, records, estimate)):
        outcome = run(batch, SMALL)
        found.add(outcome.trial)
        found.versions = found.versions or outcome.versions
        status = found.trials[-1].status
        if status == OK:
            ran += 1
            if outcome.record is not None:
                records[batch] = outcome.record
        elif status == OOM:
            estimate //= 4
        else:
            break
    return records


def _confirm(found: MaxBatch, run: TrialRunner, fits: int, fails: int | None) -> None:
    """From the prediction on, narrow the interval between what ran and what did not."""
    fit, predicted = found.fit, found.predicted
    assert fit is not None and predicted is not None
    guess = predicted
    found.largest, found.too_large = fits, fails
    misses = 0
    for _ in range(MOST_CONFIRMATIONS):
        step = max(1, math.floor(found.precision * fits))
        if fails is not None and fails - fits <= step:
            return
        batch = next_batch(guess, fits, fails, step)
        role = PREDICTED if batch == predicted else ABOVE if batch > predicted else BELOW
        found.add(run(batch, role).trial)
        trial = found.trials[-1]
        if trial.status == OK:
            found.largest = fits = batch
            # What it took more or less than predicted, others near it will, too.
            error = (trial.resident_bytes or 0) - fit.resident(batch)
            guess = largest_below(fit.resident, found.limit_bytes - error)
        elif trial.status == OOM:
            found.too_large = fails = batch
            misses += 1
            guess = batch - misses * step if misses <= NEAR_MISSES else (fits + batch) // 2
        else:
            found.status, found.reason = trial.status, f"batch {batch:,}: {trial.reason}"
            return
    if fails is None or fails - fits > max(1, math.floor(found.precision * fits)):
        found.notes.append(f"not narrowed to {found.precision:.1%} with {MOST_CONFIRMATIONS} processes")


def next_batch(guess: int, fits: int, fails: int | None, step: int) -> int:
    """The batch to try: the guess, but a step above what ran at least; the middle where the guess has failed."""
    if fails is not None and guess >= fails:
        return (fits + fails) // 2
    return max(guess, fits + step)


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
