"""Every adapter of the registry: right results over odd shapes, reasons where it refuses, and no early imports."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fresh_interpreter import run_python

from profkit.backends import BACKENDS, load_adapter
from profkit.backends.adapter import Conditions, Implementation
from profkit.backends.framework import Framework
from profkit.errors import UnavailableError, UnsupportedError
from profkit.ops import SPECS, Conv2d

RUNNER = Path(__file__).with_name("odd_specs_runner.py")
FRAMEWORK_MODULES = ("torch", "tensorflow", "keras", "jax", "numba", "onnxruntime", "onnx", "pytensor", "cupy")
IMPLEMENTATIONS = [item for name in BACKENDS for op in SPECS for item in load_adapter(name).implementations(op)]
FRAMEWORKS = [adapter for adapter in map(load_adapter, BACKENDS) if isinstance(adapter, Framework)]

by_key = pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda item: item.key)
by_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda item: item.name)


@functools.cache
def outcome(adapter: str, environment: str) -> Any:
    """What the runner says about all implementations that can share a process; computed once per session."""
    return run_python([str(RUNNER), adapter, environment], json.loads(environment))


def rows_of(implementation: Implementation) -> list[dict[str, Any]]:
    """The rows of one implementation, or a skip with the reason why it cannot run here."""
    availability = load_adapter(implementation.adapter).is_available()
    if not availability.available:
        pytest.skip(availability.reason)
    result = outcome(implementation.adapter, json.dumps(dict(implementation.environment), sort_keys=True))
    if "unavailable" in result:
        pytest.skip(result["unavailable"])
    return [row for row in result["rows"] if row["key"] == implementation.key]


@by_key
def test_supported_odd_specs_match_the_reference_and_the_others_give_a_reason(implementation: Implementation) -> None:
    rows = rows_of(implementation)

    failed = [row for row in rows if row["status"] == "raised"]
    wrong = [
        row
        for row in rows
        if row["status"] == "ran" and (row["error"] > row["bound"] or row["form"] != row["expected_form"])
    ]
    silent = [row for row in rows if row["status"] == "unsupported" and not row["reason"].strip()]

    assert rows
    assert not failed
    assert not wrong
    assert not silent


@by_key
def test_outputs_called_fresh_do_not_share_memory_between_calls(implementation: Implementation) -> None:
    rows = [row for row in rows_of(implementation) if row["status"] == "ran"]

    shared = [row for row in rows if row["output"] == "fresh" and row["shares_memory"]]
    unknown = [row for row in rows if row["output"] not in ("fresh", "reused")]

    assert not shared
    assert not unknown


@by_framework
def test_starting_tells_the_version(framework: Framework) -> None:
    implementation = framework.implementations("matmul")[0]
    rows_of(implementation)

    facts = outcome(framework.name, json.dumps(dict(implementation.environment), sort_keys=True))["facts"]

    assert facts["version"][0].isdigit()
    assert all(isinstance(value, str) for value in facts.values())


@pytest.mark.parametrize("name", BACKENDS)
def test_asking_an_adapter_what_it_has_imports_no_framework(name: str) -> None:
    question = (
        "import json, sys\n"
        "from profkit.backends import load_adapter\n"
        "from profkit.ops import SPECS, odd_specs\n"
        f"adapter = load_adapter({name!r})\n"
        "adapter.is_available()\n"
        "for op in SPECS:\n"
        "    for item in adapter.implementations(op):\n"
        "        for spec in odd_specs(op):\n"
        "            adapter.supports(item, spec)\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )

    modules = run_python(["-c", question], {})

    assert not {module.split(".")[0] for module in modules} & set(FRAMEWORK_MODULES)


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
    adapter = load_adapter("pytensor")

    (implementation,) = adapter.implementations("conv2d")

    assert "no batched" in adapter.supports(implementation, Conv2d())
