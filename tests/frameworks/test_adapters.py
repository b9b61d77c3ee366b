"""Every adapter of the registry: right results over odd shapes, reasons where it refuses, and no early imports."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections import Counter
from typing import Any

import pytest

from profkit.errors import UnavailableError, UnsupportedError
from profkit.frameworks import BACKENDS, load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.framework import Framework
from profkit.ops import SPECS, Conv2d, LocalResponseNorm, odd_specs
from tests.frameworks.odd_specs_runner import faults
from tests.support.processes import COMPILING_FAST, answer_of_python

IN_PROCESS = ("numpy", "numba")
RUNNER = "tests.frameworks.odd_specs_runner"
IMPLEMENTATIONS = [item for name in BACKENDS for op in SPECS for item in load_adapter(name).implementations(op)]
FRAMEWORKS = [adapter for adapter in map(load_adapter, BACKENDS) if isinstance(adapter, Framework)]

# The quick tier has Keras over the backend of its default row. Rows of NumPy and Numba are in test_numpy_numba.py, in
# whose process Numba compiles once for all tests.
FULL = ("keras/cpu/torch", "keras/cpu/jax")
by_key = pytest.mark.parametrize(
    "implementation",
    [
        pytest.param(item, id=item.key, marks=[pytest.mark.full] if item.key.endswith(FULL) else [])
        for item in IMPLEMENTATIONS
        if item.adapter not in IN_PROCESS
    ],
)
by_part = pytest.mark.parametrize("part", ["sample", pytest.param("rest", marks=pytest.mark.full)])
by_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda item: item.name)

COUNTED = (
    *("conv2d", "matmul", "pool2d", "lrn", "bias_relu", "softmax", "activation", "add", "attention", "batch_norm"),
    *("dropout", "embedding", "layer_norm", "lstm", "optimiser_step"),
)
# Of the odd specs of these a row accepts at least so many; an adapter that refused everything would pass the other
# tests. Native kernels have such numbers in tests/kernels.
FEWEST_ODD_SPECS = {
    "numpy/cpu": (40, 27, 22, 30, 40, 25, 25, 17, 28, 32, 15, 20, 27, 46, 16),
    "torch/cpu": (48, 31, 52, 30, 46, 29, 27, 19, 30, 34, 17, 24, 29, 40, 18),
    "torch/cpu/channels_last": (39, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "tensorflow/cpu": (44, 31, 48, 18, 46, 29, 27, 19, 30, 24, 17, 24, 29, 11, 18),
    "tensorflow/cpu/eager": (44, 31, 48, 18, 46, 29, 27, 19, 30, 24, 17, 24, 29, 11, 18),
    "keras/cpu/tensorflow": (18, 27, 22, 0, 16, 14, 7, 17, 12, 16, 15, 10, 8, 12, 16),
    "keras/cpu/torch": (18, 22, 22, 0, 16, 14, 7, 17, 12, 16, 15, 10, 8, 12, 16),
    "keras/cpu/jax": (18, 27, 22, 0, 16, 14, 7, 17, 12, 16, 15, 10, 8, 12, 16),
    "jax/cpu": (48, 31, 52, 34, 46, 29, 27, 19, 30, 34, 17, 24, 29, 48, 18),
    "numba/cpu": (40, 27, 22, 15, 16, 14, 13, 17, 0, 4, 15, 10, 9, 0, 0),
    "onnxruntime/cpu": (26, 27, 21, 9, 16, 14, 11, 17, 12, 6, 15, 10, 8, 12, 0),
    "torch/cuda": (48, 31, 52, 34, 46, 29, 27, 19, 30, 34, 17, 24, 29, 40, 18),
    "torch/cuda/channels_last": (39, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "torch/cuda/tf32": (36, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "tensorflow/cuda": (44, 31, 48, 18, 46, 29, 27, 19, 30, 24, 17, 24, 29, 11, 18),
    "tensorflow/cuda/eager": (44, 31, 48, 18, 46, 29, 27, 19, 30, 24, 17, 24, 29, 11, 18),
    "jax/cuda": (48, 31, 52, 34, 46, 29, 27, 19, 30, 34, 17, 24, 29, 48, 18),
    "cupy/cuda": (20, 29, 0, 0, 43, 27, 26, 18, 29, 33, 16, 22, 28, 47, 17),
    "numba_cuda/cuda": (18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "numba_cuda/cuda/tiled_shared": (0, 27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "numba_cuda/cuda/naive": (0, 27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
}


@functools.cache
def outcome(adapter: str, environment: str, part: str) -> Any:
    """What the runner says about all implementations that can share a process; computed once per session."""
    return answer_of_python(["-m", RUNNER, adapter, environment, part], {**COMPILING_FAST, **json.loads(environment)})


def outcome_of(implementation: Implementation, part: str) -> Any:
    """The outcome of its process, or a skip with the reason why it cannot run here."""
    availability = load_adapter(implementation.adapter).is_available()
    if not availability.available:
        pytest.skip(availability.reason)
    result = outcome(implementation.adapter, json.dumps(dict(implementation.environment), sort_keys=True), part)
    if "unavailable" in result:
        pytest.skip(result["unavailable"])
    return result


@by_key
@by_part
def test_supported_odd_specs_match_the_reference_and_the_others_give_a_reason(
    implementation: Implementation, part: str
) -> None:
    rows = [row for row in outcome_of(implementation, part)["rows"] if row["key"] == implementation.key]

    assert rows or part == "rest"
    assert not faults(rows)


def test_every_row_accepts_as_many_odd_specs_as_it_should() -> None:
    accepted: Counter[tuple[str, str]] = Counter()
    for item in IMPLEMENTATIONS:
        for spec in odd_specs(item.op):
            accepted[item.key.partition("/")[2], item.op] += not load_adapter(item.adapter).supports(item, spec)
    rows = {row for row, op in accepted if not row.startswith("native/")}

    assert rows == set(FEWEST_ODD_SPECS)
    assert not {
        (row, op): f"accepts {accepted[row, op]}, at least {least} expected"
        for row, numbers in FEWEST_ODD_SPECS.items()
        for op, least in zip(COUNTED, numbers, strict=True)
        if accepted[row, op] < least
    }


@pytest.mark.parametrize(
    "framework", [item for item in FRAMEWORKS if item.name not in IN_PROCESS], ids=lambda item: item.name
)
def test_starting_tells_the_version(framework: Framework) -> None:
    facts = outcome_of(framework.implementations("matmul")[0], "sample")["facts"]

    assert facts["version"][0].isdigit()
    assert all(isinstance(value, str) for value in facts.values())


def test_keys_are_unique_and_name_operator_framework_and_device() -> None:
    keys = Counter(item.key for item in IMPLEMENTATIONS)

    assert not [key for key, count in keys.items() if count > 1]
    for item in IMPLEMENTATIONS:
        assert item.op in SPECS
        assert item.key.split("/")[1] == load_adapter(item.adapter).name
        assert item.device in ("cpu", "cuda")


@by_framework
def test_a_framework_that_is_not_installed_says_what_to_type(
    framework: Framework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(framework, "unavailable_reason", lambda: "")  # that there is no driver is said first

    availability = framework.is_available()

    assert not availability.available
    assert framework.modules[0] in availability.reason
    assert availability.install == f'pip install "profkit[{framework.extra}]"'
    with pytest.raises(UnavailableError, match="pip install"):
        framework.start(framework.implementations("matmul")[0], Conditions())


def test_a_refused_spec_cannot_be_prepared() -> None:
    adapter = load_adapter("onnxruntime")
    spec = Conv2d(batch=1, direction="weight-gradient")
    implementation = adapter.implementations("conv2d")[0]

    with pytest.raises(UnsupportedError, match="weight gradient"):
        adapter.prepare(implementation, spec, {}, Conditions())


def test_an_operator_that_a_framework_lacks_keeps_its_row() -> None:
    adapter = load_adapter("keras")

    reasons = {adapter.supports(row, LocalResponseNorm()) for row in adapter.implementations("lrn")}

    assert reasons == {"keras has no local response normalisation"}
