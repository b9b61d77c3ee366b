"""docs/measured/cuda_kernels.md is of the kernels that there are."""

from __future__ import annotations

import re

import pytest

from tests.support.places import ROOT

KEYS = sorted(
    key
    for path in ROOT.glob("csrc/kernels/*/cuda/rows.cpp")
    for key in re.findall(r'"(\w+/native/cuda/\w+)"', path.read_text())
)


@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_is_in_the_report_with_all_its_proofs(key: str) -> None:
    name = f"| `{key.split('/')[0]} {key.rpartition('/')[2]}` |"
    page = (ROOT / "docs/measured/cuda_kernels.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith(name)]
    assert lines, f"{key} is missing: run bench/cuda_kernels.py"
    proof, *architectures = lines
    assert len(KEYS) > 15
    assert len(architectures) == 7
    compiled, emulated, raced, launched = (cell.strip() for cell in proof.strip("|").split("|")[1:])
    assert compiled.startswith("7, ")
    assert compiled.endswith("none"), "a kernel spills"
    assert int(emulated) > 0 and int(launched) > 0
    assert all(int(count) > 0 for count in raced.split(","))
