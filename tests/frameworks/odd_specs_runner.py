"""Runs in a process of its own: the implementations of one adapter that share an environment, over odd specs.

Takes the adapter's name, the environment as JSON and the part: the sample, or the rest; prints one JSON object: facts
and rows, or why not.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Adapter, Conditions, Implementation
from profkit.ops import SPECS, Spec, odd_specs
from profkit.ops.spec import max_error, tolerance
from tests.frameworks.spec_sample import sample_of


def run_spec(adapter: Adapter, implementation: Implementation, spec: Spec, conditions: Conditions) -> dict[str, Any]:
    """What came of one spec: an error and its bound, or the reason why it did not run."""
    row: dict[str, Any] = {"key": implementation.key, "spec": spec.words(), "asked": conditions.output}
    row["threads"] = conditions.threads
    reason = adapter.supports(implementation, spec)
    if reason:
        return {**row, "status": "unsupported", "reason": reason}
    inputs, given = spec.make_inputs(), spec.make_inputs()
    try:
        prepared = adapter.prepare(implementation, spec, inputs, conditions)
        first = prepared.to_numpy(prepared.call())
        result = prepared.to_numpy(prepared.call())
    except Exception:
        return {**row, "status": "raised", "reason": traceback.format_exc(limit=-4)}
    return {
        **row,
        "status": "ran",
        "form": f"{result.dtype} {result.shape}",
        "expected_form": f"{spec.dtype} {spec.output_shape()}",  # type: ignore[attr-defined]
        "error": max(error_of(first, spec, given), error_of(result, spec, given)),
        "bound": tolerance(spec.numpy_dtype, spec.reduction_length()),
        "output": prepared.output,
        "shares_memory": bool(np.shares_memory(first, result)),
        "changed_inputs": [name for name in inputs if not np.array_equal(inputs[name], given[name])],
    }


def error_of(result: Any, spec: Spec, inputs: dict[str, Any]) -> float:
    """Against float64; infinite where the shape is another."""
    return max_error(result, spec.reference(inputs)) if result.shape == spec.output_shape() else float("inf")


def part_of(adapter: Adapter, implementation: Implementation, part: str) -> list[Spec]:
    """The sample of what it supports, with all that it refuses; or the rest."""
    specs = odd_specs(implementation.op)
    supported = [spec for spec in specs if not adapter.supports(implementation, spec)]
    sample = sample_of(supported)
    return [spec for spec in specs if (spec in sample or spec not in supported) == (part == "sample")]


def rows_of(adapter: Adapter, implementation: Implementation, part: str, threads: int = 1) -> list[dict[str, Any]]:
    """Outputs as the framework likes, and reused for the first two specs."""
    rows = []
    for i, spec in enumerate(part_of(adapter, implementation, part)):
        rows.append(run_spec(adapter, implementation, spec, Conditions(threads)))
        if i < 2:
            rows.append(run_spec(adapter, implementation, spec, Conditions(threads, "reused")))
    return rows


def main(name: str, environment: dict[str, str], part: str) -> dict[str, Any]:
    """All operators."""
    adapter = load_adapter(name)
    found = [item for op in SPECS for item in adapter.implementations(op) if dict(item.environment) == environment]
    try:
        facts = adapter.start(found[0], Conditions())
    except UnavailableError as error:
        return {"unavailable": str(error)}
    return {"facts": facts, "rows": [row for item in found for row in rows_of(adapter, item, part)]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])))
