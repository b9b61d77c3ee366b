"""The policy's costs from measured times: records of bench/kernels.py in, profkit/frameworks/native/costs.json out.

Per kernel, direction and layout one model: time = sum of costs times counted pieces
(profkit/frameworks/native/costs.py), costs never negative, the relative errors' squares least.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_pages.results import Store
from profkit.capture.output_files import write_atomically
from profkit.frameworks.native.costs import (
    COSTS_FILE,
    LANES,
    SCHEMA,
    cost_name,
    shared_terms,
    terms,
)
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.ops import spec_from_dict

ROUNDS = 2000
LEAST_CELLS = 4
Floats = NDArray[np.float64]


def write_costs(store: Store) -> str:
    """Fit every kernel that was measured often enough; others keep costs of the same machine. Returns a table."""
    lanes = LANES[store.about["simd"]]
    cells: dict[str, list[tuple[dict[str, float], float]]] = defaultdict(list)
    for record in store.records.values():
        spec = spec_from_dict(record["spec"])
        for name, numbers in record["rows"].items():
            if not name.startswith("native/"):
                continue
            _, kernel, *forms = name.split("/")
            key = f"{spec.op}/native/cpu/{kernel}"
            held = spec.replaced(layout="NHWC") if "nhwc" in forms else spec
            threads = worthwhile_threads(held, record["threads"])
            count = shared_terms(terms(key, held, lanes, "packed" in forms), threads)
            cells[cost_name(key, held)].append((count, float(numbers[0])))
    fitted = {name: fit(found) for name, found in sorted(cells.items()) if len(found) >= LEAST_CELLS}
    measured = {name: store.about[name] for name in ("date", "commit", "machine")}
    old = json.loads(COSTS_FILE.read_text(encoding="utf-8")) if COSTS_FILE.exists() else {"fitted": {}}
    kept = old["costs"] if old["fitted"].get("machine") == measured["machine"] else {}
    data = {"schema": SCHEMA, "fitted": measured, "costs": {**kept, **fitted}}
    write_atomically(COSTS_FILE, json.dumps(data, indent=1) + "\n")
    lines = [f"| {name} | {item['cells']} | {100 * item['spread']:.0f} % |" for name, item in fitted.items()]
    return "\n".join(("| kernel | times | median distance |\n|---|---|---|", *lines))


def fit(cells: list[tuple[dict[str, float], float]]) -> dict[str, Any]:
    """Costs in ns per piece, how many times they come from and how far these lie from the model."""
    names = list(cells[0][0])
    # Rows divided by the measured time: what is made small is the relative error.
    matrix = np.array([[count[name] / ns for name in names] for count, ns in cells])
    costs = non_negative(matrix, np.ones(len(cells)))
    distance = np.abs(matrix @ costs - 1.0)
    return {
        "cells": len(cells),
        "spread": round(float(np.median(distance)), 4),
        "ns": {name: float(f"{cost:.4g}") for name, cost in zip(names, costs) if cost > 0},
    }


def non_negative(matrix: Floats, wanted: Floats) -> Floats:
    """Least squares without negative coefficients, one coordinate after the other until nothing changes."""
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0.0] = 1.0
    scaled = matrix / scale
    square, target = scaled.T @ scaled, scaled.T @ wanted
    found = np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        for index in range(len(found)):
            rest = target[index] - square[index] @ found + square[index, index] * found[index]
            found[index] = max(0.0, rest / square[index, index]) if square[index, index] > 0 else 0.0
    result: Floats = found / scale
    return result
