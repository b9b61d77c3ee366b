"""Keys, wildcards, default rows and the choice of the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from profkit.errors import UsageError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Availability, Implementation
from profkit.frameworks.native.policy import choose_kernel
from profkit.measurement import selection
from profkit.measurement.options import MeasureOptions
from profkit.measurement.selection import Selection, all_implementations, matches, pick_baseline
from profkit.ops import SPECS, Conv2d, MatMul, Pool2d, Spec

KEYS = [
    "conv2d/native/cpu/implicit_gemm",
    "conv2d/native/cpu/reference",
    "conv2d/torch/cpu",
    "conv2d/torch/cpu/channels_last",
    "conv2d/keras/cpu/torch",
]
IMPLEMENTATIONS = [Implementation(key, key.split("/")[1]) for key in KEYS]
CANDIDATE = Implementation("conv2d/candidate/cpu/mine", "candidate")
ON_GPU = Implementation("conv2d/torch/cuda", "torch_cuda")
CONV = Conv2d()
KERAS = next(item.key for item in load_adapter("keras").implementations("conv2d") if item.is_default).partition("/")[2]
SPECS_OF_ALL_KINDS = [
    *(spec() for spec in SPECS.values()),
    *(Conv2d(direction=word) for word in ("input-gradient", "weight-gradient")),
    *(Conv2d(dtype=word) for word in ("float64", "float16", "bfloat16")),
    Conv2d(layout="NHWC"),
    Conv2d(groups=64),
    Conv2d(stride=5, dilation=2, bias=True, activation="relu"),
    *(MatMul(dtype=word) for word in ("float64", "float16", "bfloat16")),
    MatMul(m=1, batch=3, transpose_a=True),
    Pool2d(direction="input-gradient"),
    Pool2d(mode="average", layout="NHWC"),
]


def refused(item: Implementation, spec: Spec) -> str:
    """Why the row cannot run it."""
    return load_adapter(item.adapter).supports(item, spec)


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


def asked(implementations: Sequence[Implementation], **options: Any) -> list[str]:
    """Keys of what may be measured."""
    return [item.key for item in Selection(implementations, MeasureOptions(**options)).selected]


def rows(implementations: Sequence[Implementation], spec: Spec = CONV, threads: int = 1, **options: Any) -> list[str]:
    """Keys of one cell's rows."""
    return [item.key for item in Selection(implementations, MeasureOptions(**options)).rows(spec, threads)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"only": ["native/*"], "exclude": ["*/reference"], "baseline": "torch/cpu"},
            [CANDIDATE.key, KEYS[0], KEYS[2]],
        ),
        ({"only": ["keras"]}, [CANDIDATE.key, "conv2d/keras/cpu/torch"]),
        # A device keeps its rows, the candidate and the named baseline, which brings no row of another one.
        ({"baseline": "native/reference", "device": "cuda"}, [CANDIDATE.key, KEYS[1], ON_GPU.key]),
        ({"only": ["keras"], "baseline": "torch", "device": "cpu"}, [CANDIDATE.key, KEYS[2], KEYS[4]]),
        ({"baseline": "torch", "device": "cpu"}, [CANDIDATE.key, KEYS[0], *KEYS[2:]]),
        ({"baseline": "torch", "device": "cuda"}, [CANDIDATE.key, ON_GPU.key]),
    ],
)
def test_options_choose_among_rows_and_a_candidate_always_stays(options: dict[str, Any], expected: list[str]) -> None:
    known = [CANDIDATE, *IMPLEMENTATIONS, ON_GPU]

    assert rows(known, **options) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"only": ["torch"], "device": "cuda"}, "nothing is left to measure on cuda: the selected rows run on cpu"),
        ({"only": ["keras"], "device": "cuda", "baseline": "torch"}, "nothing is left to measure on cuda"),
        ({"only": ["keras"], "exclude": ["keras"], "baseline": "torch"}, "--exclude keras excludes every"),
        ({"exclude": ["*"]}, "nothing is left"),
        ({"only": ["troch"]}, r"'troch'.*did you mean torch"),
    ],
)
def test_what_leaves_nothing_to_measure_but_a_baseline_is_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        asked(IMPLEMENTATIONS, **options)


def test_another_row_of_the_baseline_stands_in_for_the_one_asked_for_that_cannot_run() -> None:
    class Without:
        def is_available(self) -> Availability:
            return Availability(False, "no driver")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "load_adapter", lambda name: Without() if name == "torch_cuda" else load_adapter(name))
        kept = rows([ON_GPU, *IMPLEMENTATIONS], only=["torch/cuda", "native/reference"], baseline="torch")

    assert kept == [ON_GPU.key, "conv2d/native/cpu/reference", "conv2d/torch/cpu"]


def test_the_last_native_kernel_that_runs_the_spec_is_the_default_row() -> None:
    known, spec = all_implementations("conv2d"), Conv2d(direction="weight-gradient")
    native = [item for item in known if item.adapter == "native" and not item.forms and not refused(item, spec)]
    others = [item.key for item in native if not item.key.endswith("/reference")]

    chosen = [key for key in rows(known, spec, exclude=others) if key.startswith("conv2d/native/cpu/")]

    assert chosen == ["conv2d/native/cpu/reference"]


@pytest.mark.parametrize("spec", SPECS_OF_ALL_KINDS, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_default_table_has_few_rows_and_every_framework(spec: Spec, threads: int) -> None:
    known = all_implementations(spec.op)

    chosen = Selection(known, MeasureOptions()).rows(spec, threads)

    per_device = Counter(item.device for item in chosen)
    assert max(per_device.values()) <= 12
    assert not any(item.forms for item in chosen)
    frameworks = {(item.framework, item.device) for item in known}
    assert {(item.framework, item.device) for item in chosen} == frameworks
    native = [item for item in chosen if item.adapter == "native"]
    running = [item for item in known if item.adapter == "native" and not item.forms and not refused(item, spec)]
    assert len(native) == min(3, max(1, len([item for item in running if not item.key.endswith("/reference")])))
    if running:
        assert choose_kernel(spec, threads).key in {item.key for item in native}
        assert not any(refused(item, spec) for item in native)


def test_the_default_convolution_has_the_rows_that_people_use() -> None:
    chosen = rows(all_implementations("conv2d"), Conv2d(stride=2), 2, device="cpu")

    assert [key.partition("/")[2] for key in chosen if "/native/" not in key] == [
        "numpy/cpu",
        "torch/cpu",
        "torch/cpu/channels_last",
        "tensorflow/cpu",
        KERAS,
        "jax/cpu",
        "numba/cpu",
        "onnxruntime/cpu",
    ]


def test_all_measures_every_row_and_explain_every_native_one() -> None:
    known = all_implementations("conv2d")
    plain = [item.key for item in known if not item.forms]

    every, explained, default = rows(known, all=True), rows(known, explain=True), rows(known)

    assert every == plain
    native = {key for key in plain if key.startswith("conv2d/native/cpu/")}
    assert set(explained) == native | set(default)
    assert rows(known, all=True, only=["native/direct"]) == ["conv2d/native/cpu/direct"]


def test_what_is_excluded_gives_its_place_to_the_next_best_kernel() -> None:
    known = all_implementations("conv2d")
    first = [key for key in rows(known) if key.startswith("conv2d/native/cpu/")]

    second = [key for key in rows(known, exclude=[first[0]]) if key.startswith("conv2d/native/cpu/")]

    assert first[0] not in second
    assert len(second) == len(first) == 3


def test_a_baseline_that_is_no_default_row_is_measured_too() -> None:
    assert "conv2d/native/cpu/reference" in rows(all_implementations("conv2d"), baseline="native/reference")


def test_a_framework_whose_default_row_cannot_run_the_spec_has_another_that_can() -> None:
    keras = load_adapter("keras")
    usual = next(item for item in keras.implementations("conv2d") if item.is_default)
    refusing = Conv2d(stride=2, dilation=2, height=20, width=20)
    taking = [item.key for item in keras.implementations("conv2d") if not keras.supports(item, refusing)]
    assert (keras.supports(usual, refusing) == "") == (usual.variant != "tensorflow")

    chosen = [key for key in rows(all_implementations("conv2d"), refusing) if "/keras/" in key]

    assert chosen == taking[:1]


def test_rows_that_only_all_would_measure_are_known() -> None:
    usual = Selection(all_implementations("conv2d"), MeasureOptions())
    chosen = usual.rows(CONV, 1)

    left = usual.left_out(chosen, CONV)

    assert "conv2d/native/cpu/reference" in left
    assert not {item.key for item in chosen} & set(left)
    assert Selection(all_implementations("conv2d"), MeasureOptions(all=True)).left_out(chosen, CONV) == []


@pytest.mark.parametrize(
    ("keys", "wanted", "expected"),
    [
        (KEYS, None, "conv2d/torch/cpu"),
        (KEYS, "native/*", "conv2d/native/cpu/implicit_gemm"),
        (KEYS[:2], None, "conv2d/native/cpu/reference"),
        (KEYS[:2], "torch", None),
        ([], None, None),
        # A candidate only when it is named or alone.
        ([CANDIDATE.key, "conv2d/native/cpu/direct", "conv2d/native/cpu/im2col"], None, "conv2d/native/cpu/direct"),
        ([CANDIDATE.key, "conv2d/native/cpu/direct"], "candidate", CANDIDATE.key),
        ([CANDIDATE.key], None, CANDIDATE.key),
    ],
)
def test_the_baseline_is_the_wanted_one_or_the_best_known_framework(
    keys: list[str], wanted: str | None, expected: str | None
) -> None:
    assert pick_baseline(keys, wanted) == expected


def test_a_form_of_a_kernel_takes_part_only_when_its_words_are_said() -> None:
    plain = Implementation("conv2d/native/cpu/direct", "native")
    form = Implementation("conv2d/native/cpu/direct/nhwc", "native", options={"kernel": plain.key, "forms": "nhwc"})

    assert asked([plain, form]) == [plain.key]
    assert asked([plain, form], only=["native/*"]) == [plain.key]
    assert asked([plain, form], only=["native/*/nhwc"]) == [form.key]
    assert rows([plain, form], only=["native"], baseline="native/direct/nhwc") == [plain.key, form.key]
