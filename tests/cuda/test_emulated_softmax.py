"""Emulated softmax kernels against the float64 reference, and on values that overflow naive formulas."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.ops.softmax import Softmax
from profkit.ops.spec import Array
from tests.cuda.emulation import build, run
from tests.cuda.family_checks import cases_of, check_family, in_every_order, under_sanitizers

# Around the limits of 8 and 32 lanes, of 2, 4 and 32 values per lane, and of a block's packs.
COLUMNS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024)
LONG = (1025, 1028, 1032, 2051)
SPECS = [
    *(Softmax(rows, columns, dtype) for rows, columns, dtype in product((1, 5, 18), COLUMNS, ("float32", "float16"))),
    *(Softmax(rows, columns, "bfloat16") for rows, columns in product((1, 5, 18), COLUMNS)),
    *(Softmax(2, columns, dtype) for columns, dtype in product(LONG, ("float32", "float16", "bfloat16"))),
]


INF, NAN, LOWEST, LARGEST = float("inf"), float("nan"), -3.4028235e38, 3.4028235e38
EXTREMES = {
    "large": (1e4, 1e4 - 1, -1e4),
    "largest and lowest": (LARGEST, LOWEST, 0.0),
    "all lowest": (LOWEST,),
    "some minus infinity": (-INF, 0.0, -INF, 1.0, 2.0),
    "minus infinity first and last": (-INF, -INF, 3.0, -INF),
    "all minus infinity": (-INF,),
    "an infinity": (0.0, 1.0, INF),
    "a NaN": (0.0, NAN, 1.0, 2.0),
}


class OfExtremes(Softmax):
    """Rows that repeat extreme values; the seed says which."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        values = np.array(list(EXTREMES.values())[seed])
        return {"x": np.resize(values, self.input_shapes()["x"]).astype(self.numpy_dtype)}


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)

    assert len(set(SPECS)) >= 200
    assert runs == {"warp_rows": len(SPECS) - 3 * len(LONG), "block_rows": len(SPECS)}


@pytest.mark.parametrize("words", EXTREMES)
def test_large_and_infinite_values_give_what_the_definition_gives(words: str, tmp_path: Path) -> None:
    specs = [OfExtremes(3, columns) for columns in (5, 12, 60, 300, 1003, 1500)]
    program, seed = build("softmax"), list(EXTREMES).index(words)
    cases = [replace(case, seed=seed) for case in cases_of(program, specs)]

    outcomes = [outcome for outcome in run(program, cases, tmp_path) if not outcome.is_unsupported]

    assert len(outcomes) == 2 * len(specs) - 1
    for outcome in outcomes:
        assert outcome.output is not None, outcome.error
        with np.errstate(invalid="ignore"):
            expected: Any = outcome.case.spec.reference(outcome.case.spec.make_inputs(seed))
        np.testing.assert_allclose(outcome.output, expected, rtol=1e-5, atol=1e-7, err_msg=str(outcome.case))


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family([*SPECS[::9], *SPECS[-12:]], tmp_path, "random", sanitizers)

    assert runs["warp_rows"] >= 20
    assert runs["block_rows"] >= 30
