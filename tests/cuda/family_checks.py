"""What the emulated tests of every operator family ask: are all kernels right, and did each of them run at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from profkit.ops.spec import Spec
from tests.cuda.emulation import ORDERS, Case, Outcome, build, kernels_of, run, troubles

SANITIZERS = ("address,undefined", "thread")
# The quick tier runs every problem in one order of threads.
in_every_order = pytest.mark.parametrize(
    "order", [pytest.param(order, marks=() if order == "random" else pytest.mark.full) for order in ORDERS]
)
under_sanitizers = pytest.mark.parametrize(
    "sanitizers", [pytest.param(kind, marks=pytest.mark.full) for kind in SANITIZERS]
)


def cases_of(program: Path, specs: Iterable[Spec], keys: Sequence[str] = ()) -> list[Case]:
    """Every kernel (or those of `keys`) in each of its configurations on every spec."""
    kernels = {key: names for key, names in kernels_of(program).items() if not keys or key in keys}
    return [
        Case(key, spec, configuration)
        for spec in specs
        for key, names in kernels.items()
        for configuration in (range(len(names)) if names else (-1,))
    ]


def runs_by_kernel(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """On how many distinct problems each kernel really ran; one that declined everything is missing."""
    pairs = {(outcome.case.key, outcome.case.spec) for outcome in outcomes if not outcome.is_unsupported}
    return dict(Counter(key.rsplit("/", 1)[1] for key, _ in pairs))


def check(program: Path, cases: list[Case], folder: Path, order: str) -> dict[str, int]:
    """Run the cases, fail with what is wrong, and tell on how many problems each kernel ran."""
    outcomes = run(program, cases, folder, order)
    wrong = troubles(outcomes)
    assert not wrong, f"{len(wrong)} of {len(outcomes)} are wrong\n" + "\n".join(wrong[:20])
    return runs_by_kernel(outcomes)


def check_family(specs: Sequence[Spec], folder: Path, order: str, sanitizers: str = "") -> dict[str, int]:
    """All kernels of the specs' operator on all of them."""
    program = build(specs[0].op, sanitizers)
    return check(program, cases_of(program, specs), folder, order)
