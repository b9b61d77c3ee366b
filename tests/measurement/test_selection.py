"""Keys, wildcards and the choice of the baseline."""

from __future__ import annotations

import pytest

from profkit.backends.adapter import Implementation
from profkit.errors import UsageError
from profkit.measurement.selection import choose, matches, pick_baseline

KEYS = [
    "conv2d/native/cpu/implicit_gemm",
    "conv2d/native/cpu/reference",
    "conv2d/torch/cpu",
    "conv2d/torch/cpu/channels_last",
    "conv2d/keras/cpu/torch",
]
IMPLEMENTATIONS = [Implementation(key, key.split("/")[1]) for key in KEYS]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("torch", ["conv2d/torch/cpu", "conv2d/torch/cpu/channels_last"]),
        ("native/*", ["conv2d/native/cpu/implicit_gemm", "conv2d/native/cpu/reference"]),
        ("*/channels_last", ["conv2d/torch/cpu/channels_last"]),
        ("conv2d/keras/cpu/torch", ["conv2d/keras/cpu/torch"]),
        ("*gemm", ["conv2d/native/cpu/implicit_gemm"]),
        ("native/reference", ["conv2d/native/cpu/reference"]),
        ("matmul/*", []),
    ],
)
def test_a_pattern_names_keys_from_the_operator_or_the_framework_on(pattern: str, expected: list[str]) -> None:
    assert [key for key in KEYS if matches(key, pattern)] == expected


def test_only_and_exclude_combine_and_the_baseline_stays() -> None:
    kept = choose(IMPLEMENTATIONS, only=["native/*"], exclude=["*/reference"], baseline="torch/cpu")

    assert [item.key for item in kept] == KEYS[:1] + KEYS[2:4]


def test_a_candidate_stays_whatever_only_says() -> None:
    candidate = Implementation("conv2d/candidate/cpu/mine", "candidate")

    kept = choose([candidate, *IMPLEMENTATIONS], only=["keras"])

    assert [item.key for item in kept] == [candidate.key, "conv2d/keras/cpu/torch"]


def test_a_device_keeps_its_rows_the_candidate_and_the_named_baseline() -> None:
    candidate = Implementation("conv2d/candidate/cpu/mine", "candidate")
    on_gpu = Implementation("conv2d/torch/cuda", "torch_cuda")

    kept = choose([candidate, *IMPLEMENTATIONS, on_gpu], baseline="native/reference", device="cuda")

    assert [item.key for item in kept] == [candidate.key, "conv2d/native/cpu/reference", on_gpu.key]


def test_a_device_that_nothing_asked_for_runs_on_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing is left to measure on cuda: what was asked for runs on cpu"):
        choose(IMPLEMENTATIONS, only=["torch"], device="cuda")


def test_a_pattern_that_names_nothing_is_an_error_with_the_nearest_names() -> None:
    with pytest.raises(UsageError, match=r"'troch'.*did you mean torch"):
        choose(IMPLEMENTATIONS, only=["troch"])


def test_excluding_everything_is_an_error() -> None:
    with pytest.raises(UsageError, match="nothing is left"):
        choose(IMPLEMENTATIONS, exclude=["*"])


def test_the_baseline_is_the_wanted_one_or_the_best_known_framework() -> None:
    assert pick_baseline(KEYS, None) == "conv2d/torch/cpu"
    assert pick_baseline(KEYS, "native/*") == "conv2d/native/cpu/implicit_gemm"
    assert pick_baseline(KEYS[:2], None) == "conv2d/native/cpu/reference"
    assert pick_baseline(KEYS[:2], "torch") is None
    assert pick_baseline([], None) is None


def test_a_form_of_a_kernel_takes_part_only_when_its_words_are_said() -> None:
    plain = Implementation("conv2d/native/cpu/direct", "native")
    form = Implementation("conv2d/native/cpu/direct/nhwc", "native", options={"forms": "nhwc"})

    assert choose([plain, form]) == [plain]
    assert choose([plain, form], only=["native/*"]) == [plain]
    assert choose([plain, form], only=["native/*/nhwc"]) == [form]
    assert choose([plain, form], only=["native"], baseline="native/direct/nhwc") == [plain, form]
