"""Block sizes that a tuner asks for: every candidate gives the right result, what cannot be is refused."""

from __future__ import annotations

import itertools

import pytest
from kernel_calls import describe, inputs_of, reference_of, run_kernel

from profkit import _core
from profkit.backends.native_params import native_params
from profkit.errors import KernelError
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec, max_error, tolerance

BLOCKED = "matmul/native/cpu/blocked"
DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
SPECS: list[Spec] = [
    MatMul(130, 190, 400, transpose_a=True, bias=True),
    MatMul(40, 70, 300, batch=3, dtype="float64"),
    *(
        Conv2d(3, 13, 15, 17, 35, kernel_size=3, stride=stride, padding=1, layout=layout, direction=direction)
        for stride, layout, direction in itertools.product((1, 2), ("NCHW", "NHWC"), DIRECTIONS)
    ),
    # A phase of the input gradient that no tap reaches, and groups.
    Conv2d(2, 8, 19, 18, 12, kernel_size=2, stride=3, padding=0, groups=2, direction=INPUT_GRADIENT),
]


def cases() -> list[tuple[str, Spec]]:
    """Every kernel with every spec for which it has sizes to choose."""
    pairs = [(key, spec) for spec in SPECS for key in _core.kernels(spec.op)]
    offered = [(key, spec) for key, spec in pairs if not _core.supports(key, native_params(spec))]
    return [(key, spec) for key, spec in offered if _core.tunables(key, native_params(spec), 1)]


CASES = cases()


def test_every_fast_kernel_of_products_and_convolutions_has_sizes_to_choose() -> None:
    assert {key for key, _ in CASES} == {*_core.kernels("conv2d")[:-1], *_core.kernels("matmul")[:-1]}


@pytest.mark.parametrize(("key", "spec"), CASES, ids=[f"{key}-{describe(spec)}" for key, spec in CASES])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_candidate_gives_the_right_result(key: str, spec: Spec, threads: int) -> None:
    known = _core.tunables(key, native_params(spec), threads)
    sizes = [[None, *sorted({*tunable["candidates"][:1], *tunable["candidates"][-1:]})] for tunable in known]
    names = [tunable["name"] for tunable in known]
    single = [{tunable["name"]: size} for tunable in known for size in tunable["candidates"]]
    mixed = [
        {name: size for name, size in zip(names, chosen) if size is not None} for chosen in itertools.product(*sizes)
    ]

    for tuning in [*single, *mixed]:
        result = run_kernel(key, spec, threads, tuning)

        error_limit = tolerance(spec.numpy_dtype, spec.reduction_length())
        assert max_error(result, reference_of(spec)) <= error_limit, tuning


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
        _core.workspace_bytes(BLOCKED, native_params(spec), 1, tuning)
    with pytest.raises(KernelError, match=message):
        _core.bind(BLOCKED, native_params(spec), list(inputs_of(spec).values()), None, None, 1, tuning)


def test_a_kernel_without_sizes_says_that_there_is_nothing_to_choose() -> None:
    few_rows = native_params(MatMul(2, 50, 60))

    assert _core.tunables(BLOCKED, few_rows, 1) == []
    with pytest.raises(KernelError, match="there is nothing to choose"):
        _core.workspace_bytes(BLOCKED, few_rows, 1, {"kc": 14})
    with pytest.raises(KernelError, match="there is nothing to choose"):
        _core.workspace_bytes("matmul/native/cpu/reference", few_rows, 1, {"kc": 14})


def test_asked_sizes_are_really_taken() -> None:
    params = native_params(SPECS[0])
    default = _core.workspace_bytes(BLOCKED, params, 1)
    smallest = {tunable["name"]: min(tunable["candidates"]) for tunable in _core.tunables(BLOCKED, params, 1)}

    assert _core.workspace_bytes(BLOCKED, params, 1, smallest) < default / 2


def test_candidates_never_repeat_the_default() -> None:
    for key, spec in CASES:
        for tunable in _core.tunables(key, native_params(spec), 2):
            assert tunable["default"] not in tunable["candidates"]
            assert len(set(tunable["candidates"])) == len(tunable["candidates"])
