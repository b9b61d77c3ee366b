"""Runs in a separate process: the implementations of one adapter that share an environment, over odd specs.

A sample of these has every feature of theirs; `faults` says what is wrong with the rows.

Takes the adapter's name, the environment as JSON and the part: the sample, or the rest; prints one JSON object: facts
and rows, or why not.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Adapter, Conditions, Implementation
from profkit.ops import SPECS, Spec, odd_specs
from profkit.ops.spec import max_error, tolerance

Feature = tuple[str, str, str]


def features(spec: Spec) -> set[Feature]:
    """Direction, field and kind of value; types without the direction, since frameworks compile anew for each, and so
    is all but a convolution, whose gradients are computed in other ways for each field.
    """
    words = spec.words()
    direction = words.get("direction", "") if spec.op == "conv2d" else ""
    return {("" if name == "dtype" else direction, name, kind_of(word)) for name, word in words.items()}


def kind_of(word: str) -> str:
    """A word itself (float16, same, NHWC); numbers above one are alike, as are lists of numbers that differ."""
    try:
        numbers = {float(part) for part in word.split("x")}
    except ValueError:
        return word
    if len(numbers) > 1:
        return "uneven"
    return "larger" if numbers.pop() > 1 else word


def sample_of(specs: Sequence[Spec]) -> list[Spec]:
    """Few of the specs, in their order, with all features that the specs have: always the one with most new ones."""
    missing = set[Feature]().union(*map(features, specs))
    chosen = []
    while missing:
        best = max(specs, key=lambda spec: len(features(spec) & missing))
        chosen.append(best)
        missing -= features(best)
    return [spec for spec in specs if spec in chosen]


def is_slow_to_compile(implementation: Implementation, spec: Spec) -> bool:
    """Numba compiles each type of an operator anew, for seconds; softmax is the quickest."""
    return implementation.adapter == "numba" and spec.words()["dtype"] == "float64" and spec.op != "softmax"


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
    sample = sample_of([spec for spec in supported if not is_slow_to_compile(implementation, spec)])
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


def faults(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that raised, or whose result, output, inputs or reason are not what they must be; each says which."""
    return [{"faults": found, **row} for row in rows if (found := faults_of(row))]


def faults_of(row: dict[str, Any]) -> list[str]:
    """Words for what is wrong with a row."""
    if row["status"] == "unsupported":
        return [] if row["reason"].strip() else ["refused without a reason"]
    if row["status"] != "ran":
        return [row["status"]]
    wrong = {
        "wrong result": not row["error"] <= row["bound"],
        "wrong shape or dtype": row["form"] != row["expected_form"],
        "inputs changed": bool(row["changed_inputs"]),
        "neither fresh nor reused": row["output"] not in ("fresh", "reused"),
        "called fresh, but shares memory between calls": row["output"] == "fresh" and row["shares_memory"],
    }
    return [words for words, is_wrong in wrong.items() if is_wrong]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])))
