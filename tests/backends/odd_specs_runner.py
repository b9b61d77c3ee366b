"""Runs in a process of its own: one variant of one adapter over every odd spec; prints a JSON list of outcomes."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from profkit.backends import load_adapter
from profkit.backends.adapter import Adapter, Conditions, Implementation
from profkit.errors import UnavailableError
from profkit.ops import SPECS, Spec, odd_specs
from profkit.ops.spec import max_error, tolerance


def run_spec(adapter: Adapter, implementation: Implementation, spec: Spec, conditions: Conditions) -> dict[str, Any]:
    """What came of one spec: an error and its bound, or the reason why it did not run."""
    row: dict[str, Any] = {"key": implementation.key, "spec": spec.words(), "output": conditions.output}
    reason = adapter.supports(implementation, spec)
    if reason:
        return {**row, "status": "unsupported", "reason": reason}
    inputs = spec.make_inputs()
    try:
        prepared = adapter.prepare(implementation, spec, inputs, conditions)
        prepared.call()
        result = prepared.to_numpy(prepared.call())
    except Exception:
        return {**row, "status": "raised", "reason": traceback.format_exc(limit=-4)}
    bound = tolerance(spec.numpy_dtype, spec.reduction_length())
    matches = result.shape == spec.output_shape() and result.dtype == spec.numpy_dtype
    return {
        **row,
        "status": "ran",
        "form": "as declared" if matches else f"{result.dtype} {result.shape}, not {spec.dtype} {spec.output_shape()}",
        "error": max_error(result, spec.reference(inputs)) if result.shape == spec.output_shape() else float("inf"),
        "bound": bound,
        "held": prepared.output,
    }


def main(name: str, variant: str) -> None:
    """All operators of one variant, outputs as the framework likes and reused."""
    adapter = load_adapter(name)
    found = [item for op in SPECS for item in adapter.implementations(op) if item.variant == variant]
    try:
        facts = adapter.start(found[0], Conditions())
    except UnavailableError as error:
        print(json.dumps({"unavailable": str(error)}))
        return
    rows = []
    for implementation in found:
        for i, spec in enumerate(odd_specs(implementation.op)):
            rows.append(run_spec(adapter, implementation, spec, Conditions()))
            if i < 2:
                rows.append(run_spec(adapter, implementation, spec, Conditions(output="reused")))
    print(json.dumps({"facts": facts, "rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
