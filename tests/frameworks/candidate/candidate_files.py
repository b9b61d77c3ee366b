"""Files of users' kernels: text in, an implementation, and what it computes, out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared
from profkit.frameworks.candidate.operators import ADAPTER, candidate_implementations
from profkit.ops import Spec
from profkit.ops.spec import max_error, tolerance
from tests.support.places import DOCS

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on this machine")


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def made(path: Path, text: str, op: str) -> Implementation:
    """The one candidate that the file is for this operator."""
    [candidate] = candidate_implementations([write(path, text)], op)
    return candidate


def example(name: str) -> str:
    """The code block of docs/candidates.md that begins with the file's name."""
    page = (DOCS / "candidates.md").read_text()
    blocks = page.split("```")[1::2]
    [found] = [block.split("\n", 1)[1] for block in blocks if name in block.split("\n", 2)[1]]
    return found


def prepare(candidate: Implementation, spec: Spec, threads: int = 1, output: str = "reused") -> Prepared:
    """Started, and ready to be called."""
    conditions = Conditions(threads, output)
    ADAPTER.start(candidate, conditions)
    return ADAPTER.prepare(candidate, spec, spec.make_inputs(), conditions)


def run(candidate: Implementation, spec: Spec, threads: int = 1, output: str = "reused") -> Array:
    prepared = prepare(candidate, spec, threads, output)
    return prepared.to_numpy(prepared.call())


def is_right(result: Array, spec: Spec) -> bool:
    """Against float64."""
    error = max_error(result, spec.reference(spec.make_inputs()))
    return error <= tolerance(spec.numpy_dtype, spec.reduction_length())
