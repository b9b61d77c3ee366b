"""A worker under another Python, with an old NumPy and without profkit installed."""

from __future__ import annotations

from pathlib import Path

import pytest

import profkit
from profkit.errors import UsageError
from profkit.ops.spec import Spec
from tests.frameworks.networks.foreign_networks import environment_of


@pytest.fixture(scope="module")
def old_python() -> str:
    """An interpreter with NumPy 1.23 and without profkit: that of Theano's environment."""
    return environment_of("theano").python


@pytest.mark.parametrize("spec", [profkit.MatMul(m=9, n=7, k=5), profkit.Conv2d(batch=2, in_channels=3, stride=2)])
def test_numpy_runs_under_an_interpreter_with_an_old_numpy(old_python: str, spec: Spec) -> None:
    result = profkit.measure(spec, only="numpy", threads=1, budget_s=0.2, interpreters={"numpy": old_python})

    row = result.cells[0].rows[0]
    assert (row.status, row.reason) == ("ok", "")
    assert row.versions["version"] == "1.23.5"


def test_a_python_candidate_runs_there_too(old_python: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy\n\ndef matmul(spec, a, b):\n    assert numpy.__version__ == '1.23.5'\n    return a @ b\n"
    )

    result = profkit.measure(
        profkit.MatMul(m=4, n=4, k=4),
        only="candidate",
        candidates=[f"{path}:matmul"],
        threads=1,
        budget_s=0.2,
        interpreters={"candidate": old_python},
    )

    assert (result.cells[0].rows[0].status, result.cells[0].rows[0].reason) == ("ok", "")


def test_an_interpreter_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no Python interpreter for numpy: /nowhere/python"):
        profkit.measure(profkit.MatMul(m=4, n=4, k=4), interpreters={"numpy": "/nowhere/python"})
