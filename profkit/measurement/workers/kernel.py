"""The worker's side of measuring native kernels: every kernel of an operator, checked and timed in one process.

Input: specs as JSON, threads, time to spend. Output: samples in nanoseconds, workspace, errors, and what failed.
"""

from __future__ import annotations

import gc
import math
import time
from dataclasses import dataclass, field

import numpy as np

from profkit.errors import ProfkitError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared, aligned_empty
from profkit.measurement.sampling import SAMPLE_NS
from profkit.measurement.workers.operator import answer_requests, timed
from profkit.measurement.workers.protocol import Message
from profkit.ops import spec_from_dict
from profkit.ops.spec import Spec, max_error, tolerance

REFERENCE = "/reference"
CLOSE = 1.25
"""A kernel slower than the fastest by more than this after its first calls is out of the race."""
MOST_SAMPLES = 40


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests until the parent closes the pipe."""
    answer_requests(KernelWorker(), read_fd, write_fd)


@dataclass
class _VerifiedKernel:
    """A kernel that gave the right result."""

    prepared: Prepared
    error: float
    call_ns: float
    samples_ns: list[float] = field(default_factory=list)

    def sample(self) -> None:
        """Time as many calls as make a sample long enough for the clock."""
        calls = max(1, math.ceil(SAMPLE_NS / max(1.0, self.call_ns)))
        self.samples_ns.append(timed(self.prepared.call, calls) / calls)


class KernelWorker:
    """Keeps nothing between requests."""

    is_candidate = False

    def do_measure(self, spec: Message, threads: int, budget_s: float) -> Message:
        """All native kernels of this spec: those close to the fastest are sampled in turns, the fastest stays.

        With several threads the fastest is timed with one as well.
        """
        operator = spec_from_dict(spec)
        inputs = {name: _aligned(array) for name, array in operator.make_inputs().items()}
        racers, failed = _checked(operator, inputs, threads)
        slower = _drop_slow(racers)
        gc.disable()
        try:
            _race(racers, budget_s if threads == 1 else budget_s * 2 / 3)
            best = min(racers, key=lambda key: float(np.median(racers[key].samples_ns)), default=None)
            alone = _one_thread(best, operator, inputs, budget_s / 3) if best and threads > 1 else []
        finally:
            gc.enable()
        return {
            "kernels": {key: _described(racer) for key, racer in racers.items()},
            "slower_ns": slower,
            "failed": failed,
            "one_thread_samples_ns": alone,
        }


def _checked(
    operator: Spec, inputs: dict[str, Array], threads: int
) -> tuple[dict[str, _VerifiedKernel], dict[str, str]]:
    """Kernels whose result is right, and the reasons of the others.

    The reference kernel is written to be read: it takes part only where it is all there is.
    """
    adapter = load_adapter("native")
    rows = [row for row in adapter.implementations(operator.op) if not row.forms]
    known = [row for row in rows if not adapter.supports(row, operator)]
    chosen = [row for row in known if not row.key.endswith(REFERENCE)] or known
    expected = operator.reference(inputs) if chosen else np.zeros(0)
    limit = tolerance(operator.numpy_dtype, operator.reduction_length())
    racers: dict[str, _VerifiedKernel] = {}
    failed: dict[str, str] = {}
    for row in chosen:
        try:
            prepared = adapter.prepare(row, operator, inputs, Conditions(threads, tuned=False))
            error = max_error(np.asarray(prepared.to_numpy(prepared.call())), expected)
        except (ProfkitError, MemoryError) as problem:
            failed[row.key] = f"{type(problem).__name__}: {problem}"
            continue
        if error <= limit:
            racers[row.key] = _VerifiedKernel(prepared, error, float(timed(prepared.call, 1)))
        else:
            failed[row.key] = f"wrong: error {error:.2g} is above the tolerance {limit:.2g}"
    return racers, failed


def _drop_slow(racers: dict[str, _VerifiedKernel]) -> dict[str, float]:
    """Take out the kernels that are far behind, and give the time of their one call."""
    least = min((racer.call_ns for racer in racers.values()), default=0.0)
    slow = {key: racer.call_ns for key, racer in racers.items() if racer.call_ns > CLOSE * least}
    for key in slow:
        del racers[key]  # and its workspace with it
    return slow


def _race(racers: dict[str, _VerifiedKernel], budget_s: float) -> None:
    """Samples in turns, so that what slows the machine for a while slows all; the first round warms up."""
    end = time.monotonic() + budget_s
    for racer in racers.values():
        racer.sample()
        racer.call_ns = racer.samples_ns.pop()
    for number in range(MOST_SAMPLES if racers else 0):
        for racer in racers.values():
            racer.sample()
        if number >= 2 and time.monotonic() > end:
            break


def _one_thread(key: str, operator: Spec, inputs: dict[str, Array], budget_s: float) -> list[float]:
    prepared = load_adapter("native").prepare(
        Implementation(key, "native"), operator, inputs, Conditions(1, tuned=False)
    )
    racer = _VerifiedKernel(prepared, 0.0, float(timed(prepared.call, 1)))
    _race({key: racer}, budget_s)
    return racer.samples_ns


def _described(racer: _VerifiedKernel) -> Message:
    return {
        "samples_ns": racer.samples_ns,
        "workspace_bytes": racer.prepared.held_bytes,
        "error": racer.error,
    }


def _aligned(array: Array) -> Array:
    """The same numbers from the start of a page, as the workers of measure have them."""
    copy = aligned_empty(array.shape, array.dtype, alignment=4096)
    copy[...] = array
    return copy
