"""The best time of every layer of a network on this machine: profkit's fastest native kernels, and the roofline.

Input: a network and a number of threads. Output: rows of JSON values, which a Run keeps as `baseline`;
docs/baseline.md has their fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from profkit.measurement.bounds import COMPUTE, MEMORY, method_of
from profkit.measurement.kernel_times import KernelTime, kernel_times
from profkit.measurement.peaks import machine_peaks
from profkit.ops import spec_from_dict
from profkit.ops.networks.network import Network
from profkit.ops.networks.parts import LayerParts, layer_parts, step_parts
from profkit.ops.networks.training import Training
from profkit.ops.networks.work import BACKWARD, FORWARD, NO_LAYER, OPTIMISER, StepWork, fused, network_work
from profkit.ops.spec import Spec

DTYPE = "float32"
BUDGET_S = 4.0


def measure_baseline(
    network: Network,
    threads: int,
    is_training: bool,
    budget_s: float = BUDGET_S,
    tell: Callable[[str], None] = lambda _: None,
    training: Training | None = None,
    remeasure: bool = False,
    limit_s: float = math.inf,
) -> list[dict[str, Any]]:
    """One row per layer and phase that has work to do; then the loss, which has a bound only, and the optimiser.

    Equal operators are one. Their kernels are measured as `budget_s` allows, those with the longest bound first, and
    remembered, so a second call takes no time. What is left after `limit_s` has no native time yet.
    """
    phases = (FORWARD, BACKWARD) if is_training else (FORWARD,)
    parts = [layer_parts(network, layer, phase, is_training) for phase in phases for layer in network.layers]
    how = (training or Training()) if is_training else None
    parts += step_parts(network, how) if how else []
    peaks = machine_peaks(DTYPE, threads)
    specs = dict.fromkeys(spec for part in parts for _, spec in part.specs)
    longest_first = sorted(specs, key=lambda spec: -_least_ns(spec.least_flops(), spec.min_bytes(), peaks))
    times = kernel_times(longest_first, threads, budget_s, tell, remeasure, limit_s)
    work = work_by_phase(network, how)
    rows = [_row(part, times, threads) for part in parts]
    return [
        {**row, **bound(found, peaks), "native_bound_ns": native_bound_ns(row, found, peaks)}
        for row in rows
        if (found := work.get((row["layer"], row["phase"]))) is not None
    ]


def work_by_phase(network: Network, training: Training | None) -> dict[tuple[str, str], StepWork]:
    """Flops and bytes per layer and phase, bias and ReLU fused into their layer; one optimiser for all layers."""
    grouped: dict[tuple[str, str], list[StepWork]] = {}
    for (layer, phase, _), part in network_work(network, training).items():
        grouped.setdefault((NO_LAYER if phase == OPTIMISER else layer, phase), []).append(part)
    return {key: fused(parts) for key, parts in grouped.items()}


def bound(work: StepWork, peaks: Mapping[str, float]) -> dict[str, Any]:
    """The roofline of the direct method: the arithmetic at its peak, the bytes at the measured bandwidth."""
    compute_ns = 1e9 * work.least_flops / peaks["flops_per_s"]
    memory_ns = 1e9 * work.bytes / peaks["bytes_per_s"]
    return {
        "flops": work.least_flops,
        "bytes": work.bytes,
        "bound_ns": _least_ns(work.least_flops, work.bytes, peaks),
        "bound_by": COMPUTE if compute_ns >= memory_ns else MEMORY,
        "peak_flops_per_s": peaks["flops_per_s"],
        "peak_bytes_per_s": peaks["bytes_per_s"],
    }


def native_bound_ns(row: Mapping[str, Any], work: StepWork, peaks: Mapping[str, float]) -> float | None:
    """The roofline of what the native kernels do: Winograd's need fewer products; None without kernels."""
    if row["native_ns"] is None:
        return None
    flops = float(work.least_flops)
    for part in row["parts"]:
        spec = spec_from_dict(part["spec"])
        flops += method_of(part["key"], spec)[1] - spec.least_flops()
    return _least_ns(flops, work.bytes, peaks)


def _least_ns(flops: float, bytes: int, peaks: Mapping[str, float]) -> float:
    return max(1e9 * flops / peaks["flops_per_s"], 1e9 * bytes / peaks["bytes_per_s"])


def _row(parts: LayerParts, times: Mapping[Spec, KernelTime], threads: int) -> dict[str, Any]:
    measured = [{"part": name, "spec": spec.to_dict(), **times[spec]} for name, spec in parts.specs]
    is_whole = bool(measured) and all(part["native_ns"] is not None for part in measured)
    return {
        "layer": parts.layer,
        "phase": parts.phase,
        "kind": parts.kind,
        "threads": threads,
        **{name: _sum(measured, name) if is_whole else None for name in ("native_ns", "one_thread_ns")},
        "native_key": " + ".join(dict.fromkeys(part["key"] for part in measured)) if is_whole else None,
        "workspace_bytes": max(part["workspace_bytes"] for part in measured) if is_whole else None,
        "parts": measured,
        "without_kernel": list(parts.without_spec),
    }


def _sum(parts: list[dict[str, Any]], name: str) -> float:
    return float(sum(part[name] for part in parts))
