"""The worker's side of proving kernels: which runs a kernel offers, and one run against float64.

Kernels run through their adapters, as they are measured, on guarded memory, and are judged by the same tolerance.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from profkit.errors import SpecError, UnavailableError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Array, Conditions, Implementation
from profkit.frameworks.device_arrays import cuda_module
from profkit.frameworks.native.operators import held_spec, kernel_key
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.native.tuned import tuning_text
from profkit.measurement.tuner.tasks import TunedAdapter
from profkit.measurement.workers.operator import checked_result
from profkit.measurement.workers.protocol import Message
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec, max_error, tolerance
from profkit.selftests.guarded import guarded_adapter
from profkit.selftests.kernels import TUNED_FLOPS, shapes_of

KEPT_REFERENCES = 128
CALLS = 2


def runs_of(adapter: str, key: str, is_full: bool, threads: int) -> Message:
    """For each shape why the kernel refuses it, or its runs: sizes of blocks as text, and threads."""
    row = _row(adapter, key)
    return {"shapes": [_runs_of_shape(row, spec, is_full, threads) for spec in shapes_of(row.op, is_full)]}


def run_kernel(adapter: str, key: str, shape: int, is_full: bool, tuning: str, threads: int) -> Message:
    """Run it twice, each time on memory full of NaN; the larger error, its tolerance, and the spec."""
    row = _row(adapter, key)
    spec = shapes_of(row.op, is_full)[shape]
    inputs, reference = _known(spec)
    trial = Implementation(row.key, row.adapter, options={**row.options, **({"tuning": tuning} if tuning else {})})
    guarded = guarded_adapter(adapter)
    prepared = guarded.prepare(trial, spec, inputs, Conditions(threads, "reused", tuned=False))
    error = 0.0
    for _ in range(CALLS):
        guarded.fill_with_nan()
        error = max(error, max_error(checked_result(prepared.to_numpy(prepared.call()), spec), reference))
        guarded.check()
    limit = tolerance(spec.numpy_dtype, spec.reduction_length(), row.rounding)
    return {"max_error": error, "tolerance": limit, "spec": spec.to_dict()}


def _row(adapter: str, key: str) -> Implementation:
    rows = load_adapter(adapter).implementations(parts_of(key).op)
    return next(row for row in rows if row.key == key)


def _runs_of_shape(row: Implementation, spec: Spec, is_full: bool, threads: int) -> Message:
    adapter = cast(TunedAdapter, load_adapter(row.adapter))
    try:
        reason = refusal = adapter.supports(row, spec)
        if not refusal:
            spec.numpy_dtype  # noqa: B018 - bfloat16 needs a separate package
    except (SpecError, UnavailableError) as error:
        refusal, reason = "", str(error)
    if reason:
        # Without attributes a usual CUDA device is assumed.
        is_cuda = bool(refusal) and row.device != "cpu"
        is_taken_elsewhere = is_cuda and not cuda_module().supports(kernel_key(row), spec.params(), {})
        return {"refused": reason, "is_taken_elsewhere": is_taken_elsewhere, "runs": []}
    offer: Message = {"refused": "", "is_taken_elsewhere": False}
    if row.device != "cpu":
        return {**offer, "runs": [("", threads), *((text, threads) for text in _tunings(row, spec, threads))]}
    held = held_spec(row, spec)
    counts = [1, threads] if worthwhile_threads(held, threads) > 1 else [1]
    runs = [("", count) for count in counts]
    return {**offer, "runs": [*runs, *((text, counts[-1]) for text in _tunings(row, spec, threads) if is_full)]}


def _tunings(row: Implementation, spec: Spec, threads: int) -> list[str]:
    """Every size of blocks or configuration that a tuner could choose, one at a time."""
    if row.forms or (row.device == "cpu" and spec.flops() > TUNED_FLOPS):
        return []  # forms are tuned as the kernel that they are forms of
    adapter = cast(TunedAdapter, load_adapter(row.adapter))
    found = adapter.tunables(row, spec, threads)
    return [tuning_text({item["name"]: value}) for item in found for value in item["candidates"]]


@lru_cache(KEPT_REFERENCES)
def _known(spec: Spec) -> tuple[dict[str, Array], Array]:
    inputs = spec.make_inputs()
    return inputs, spec.reference(inputs)
