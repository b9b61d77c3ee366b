"""Runs in a process of its own: the implementations of one adapter that share an environment, over odd specs.

Takes the adapter's name and the environment as JSON; prints one JSON object: facts and rows, or why not.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import numpy as np

from profkit.backends import load_adapter
from profkit.backends.adapter import Adapter, Conditions, Implementation
from profkit.errors import UnavailableError
from profkit.ops import SPECS, Spec, odd_specs
from profkit.ops.spec import max_error, tolerance


def run_spec(adapter: Adapter, implementation: Implementation, spec: Spec, conditions: Conditions) -> dict[str, Any]:
    """What came of one spec: an error and its bound, or the reason why it did not run."""
    row: dict[str, Any] = {"key": implementation.key, "spec": spec.words(), "asked": conditions.output}
    reason = adapter.supports(implementation, spec)
    if reason:
        return {**row, "status": "unsupported", "reason": reason}
    inputs = spec.make_inputs()
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
        "error": max_error(result, spec.reference(inputs)) if result.shape == spec.output_shape() else float("inf"),
        "bound": tolerance(spec.numpy_dtype, spec.reduction_length()),
        "output": prepared.output,
        "shares_memory": bool(np.shares_memory(first, result)),
    }


def main(name: str, environment: dict[str, str]) -> dict[str, Any]:
    """All operators; outputs as the framework likes, and reused for the first two specs of each."""
    adapter = load_adapter(name)
    found = [item for op in SPECS for item in adapter.implementations(op) if dict(item.environment) == environment]
    try:
        facts = adapter.start(found[0], Conditions())
    except UnavailableError as error:
        return {"unavailable": str(error)}
    rows = []
    for implementation in found:
        for i, spec in enumerate(odd_specs(implementation.op)):
            rows.append(run_spec(adapter, implementation, spec, Conditions()))
            if i < 2:
                rows.append(run_spec(adapter, implementation, spec, Conditions(output="reused")))
    return {"facts": facts, "rows": rows}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
