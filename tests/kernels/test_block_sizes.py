"""Block sizes that a tuner asks for: every candidate gives the right result, what cannot be is refused."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from profkit import _core
from profkit.errors import KernelError
from profkit.ops.conv2d import INPUT_GRADIENT, Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec
from tests.kernels.kernel_calls import FEWEST, assert_right, describe, in_every_direction, inputs_of, keys_of, taken

BLOCKED = "matmul/native/cpu/blocked"
SPECS: list[Spec] = [
    MatMul(130, 190, 400, transpose_a=True, bias=True),
    MatMul(40, 70, 300, batch=3, dtype="float64"),
    *(
        spec
        for stride in (1, 2)
        for spec in in_every_direction(
            batch=3, in_channels=13, height=15, width=17, out_channels=35, kernel_size=3, stride=stride, padding=1
        )
    ),
    # A phase of the input gradient that no tap reaches, and groups.
    Conv2d(2, 8, 19, 18, 12, kernel_size=2, stride=3, padding=0, groups=2, direction=INPUT_GRADIENT),
]


KEYS = keys_of("conv2d", "matmul")


def taken_specs(key: str) -> list[Spec]:
    """The specs of the kernel's operator that it takes."""
    return taken(key, [spec for spec in SPECS if key.startswith(f"{spec.op}/")], FEWEST[key].chosen_blocks)


def tunings(key: str, spec: Spec, threads: int) -> list[dict[str, int]]:
    """Every candidate of every size alone, and the smallest and the largest of all sizes together."""
    known = _core.tunables(key, spec.params(), threads)
    assert known, f"{key} on {describe(spec)} has no sizes to choose"
    sizes = [[None, *sorted({*tunable["candidates"][:1], *tunable["candidates"][-1:]})] for tunable in known]
    names = [tunable["name"] for tunable in known]
    single = [{tunable["name"]: size} for tunable in known for size in tunable["candidates"]]
    mixed = [
        {name: size for name, size in zip(names, chosen) if size is not None} for chosen in itertools.product(*sizes)
    ]
    return [*single, *mixed]


@pytest.mark.parametrize("key", KEYS)
def test_every_candidate_gives_the_right_result(key: str) -> None:
    assert_right(key, taken_specs(key), [1, 3], partial(tunings, key))


@pytest.mark.parametrize(
    ("tuning", "message"),
    [
        ({"nc": 0}, "nc of matmul/native/cpu/blocked must be a multiple of"),
        ({"kc": -1}, "kc of matmul/native/cpu/blocked must be a multiple of 1 between 1 and 400 here, got -1"),
        ({"kc": 401}, "between 1 and 400 here, got 401"),
        ({"nc": 1}, "nc of matmul/native/cpu/blocked must be a multiple of"),
        ({"rows": 4}, "has no size named rows for these parameters; there is nc, kc"),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_the_numbers(tuning: dict[str, int], message: str) -> None:
    spec = SPECS[0]

    with pytest.raises(KernelError, match=message):
        _core.workspace_bytes(BLOCKED, spec.params(), 1, tuning)
    with pytest.raises(KernelError, match=message):
        _core.bind(BLOCKED, spec.params(), list(inputs_of(spec).values()), None, None, 1, tuning)


def test_a_kernel_without_sizes_says_that_there_is_nothing_to_choose() -> None:
    skinny = MatMul(2, 50, 60).params()

    assert _core.tunables(BLOCKED, skinny, 1) == []
    with pytest.raises(KernelError, match="there is nothing to choose"):
        _core.workspace_bytes(BLOCKED, skinny, 1, {"kc": 14})
    with pytest.raises(KernelError, match="there is nothing to choose"):
        _core.workspace_bytes("matmul/native/cpu/reference", skinny, 1, {"kc": 14})


def test_asked_sizes_are_really_taken() -> None:
    params = SPECS[0].params()
    default = _core.workspace_bytes(BLOCKED, params, 1)
    smallest = {tunable["name"]: min(tunable["candidates"]) for tunable in _core.tunables(BLOCKED, params, 1)}

    assert _core.workspace_bytes(BLOCKED, params, 1, smallest) < default / 2


@pytest.mark.parametrize("key", KEYS)
def test_candidates_never_repeat_the_default(key: str) -> None:
    for spec in taken_specs(key):
        for tunable in _core.tunables(key, spec.params(), 2):
            assert tunable["default"] not in tunable["candidates"]
            assert len(set(tunable["candidates"])) == len(tunable["candidates"])
