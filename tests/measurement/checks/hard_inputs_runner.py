"""Rows of one framework on hard inputs: what is wrong, and how far the worst is from its tolerance.

Imported by tests, and run in a separate process for frameworks: takes framework, operator and environment as JSON;
prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions
from profkit.measurement.checks.correctness import compare, hard_inputs
from profkit.ops import SPECS, Conv2d
from profkit.ops.dtypes import tolerance
from profkit.ops.spec import Spec


def errors_on_hard_inputs(framework: str, specs: Sequence[Spec], environment: Mapping[str, str]) -> dict[str, Any]:
    """Of the rows that share this environment."""
    adapter = load_adapter(framework)
    wrong, looked, worst = [], 0, 0.0
    for spec in specs:
        rows = [row for row in adapter.implementations(spec.op) if row.device == "cpu"]
        rows = [row for row in rows if row.environment == environment and not adapter.supports(row, spec)]
        limit = tolerance(spec.numpy_dtype, spec.reduction_length())
        for each in hard_inputs(spec, 0) if rows else []:
            for row in rows:
                adapter.start(row, Conditions(1))
                prepared = adapter.prepare(row, spec, each.inputs, Conditions(1))
                found = compare(np.asarray(prepared.to_numpy(prepared.call())), each.reference, limit, each.scale)
                looked += 1
                worst = max(worst, found.error / limit)
                wrong += [] if found.is_right else [f"{row.key} {spec} {each.name}: {found.text(limit)}"]
    return {"wrong": wrong, "looked": looked, "worst": worst}


def specs_of(op: str) -> list[Spec]:
    """Odd and larger ones, and two of a network."""
    large = [Conv2d(batch=5), Conv2d(batch=5, in_channels=192, kernel_size=3, padding=1)] if op == "conv2d" else []
    return [*SPECS[op].odd_shapes(), *SPECS[op].round_shapes(), *SPECS[op].larger_shapes(), *large]


if __name__ == "__main__":
    print(json.dumps(errors_on_hard_inputs(sys.argv[1], specs_of(sys.argv[2]), json.loads(sys.argv[3]))))
