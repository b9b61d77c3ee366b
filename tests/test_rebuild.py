"""What `pip install -e .` compiles when it is run again: nothing, or what changed. Compiler calls are counted."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rich

from tests.support.places import ROOT
from tests.support.processes import finish, succeed

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]
# The call is noted, and made without optimisation, which ninja does not see: an object is soon there. nvcc
# compiles CMake's own checks only: objects of ours are empty, and depend on their source alone.
LAUNCHER = """#!/bin/sh
echo "$@" >> "$COMPILER_CALLS"
case "$1:$*" in *nvcc:*/csrc/*) ;; *) exec "$@" -O0 ;; esac
while [ $# -gt 0 ]; do
  case "$1" in -c) source=$2 ;; -o) object=$2 ;; -MF) dependencies=$2 ;; esac
  shift
done
echo "$object: $source" > "$dependencies"
exec c++ -c -x c++ /dev/null -o "$object"
"""
HAS_NVCC = shutil.which("nvcc") is not None
Compiled = Callable[[], list[str]]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads."""
    folder = tmp_path_factory.mktemp("rebuild") / "profkit"
    folder.mkdir()
    for name in ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("csrc", "profkit"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def install(tree: Path) -> Compiled:
    """Runs pip with its isolated build environment, as the README says; returns the sources that were compiled."""
    log, launcher, place = tree.parent / "calls", tree.parent / "launcher", tree.parent / "venv"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    venv.create(place, with_pip=False)
    environment = {
        **os.environ,
        "CMAKE_CXX_COMPILER_LAUNCHER": str(launcher),
        "CMAKE_CUDA_COMPILER_LAUNCHER": str(launcher),
        "COMPILER_CALLS": str(log),
        "SKBUILD_CMAKE_DEFINE": f"PROFKIT_CUDA={'ON' if HAS_NVCC else 'OFF'};PROFKIT_ISAS=generic",
    }
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--no-deps", "-e", "."]

    def run() -> list[str]:
        log.write_text("")
        done = finish(pip, environment, cwd=tree)
        if "No matching distribution found for" in done.stderr or "Could not find a version" in done.stderr:
            pytest.skip("pip cannot get what the build needs (scikit-build-core, pybind11)")
        assert done.returncode == 0, done.stdout + done.stderr
        calls = [line.split() for line in log.read_text().splitlines()]
        sources = [Path(words[words.index("-c") + 1]) for words in calls if "-c" in words]
        return sorted(path.name for path in sources if path.is_relative_to(tree / "csrc") or "csrc" in path.parts)

    compiled = run()
    assert len(compiled) > 30
    assert any(name.endswith(".cu") for name in compiled) == HAS_NVCC
    return run


def test_nothing_is_compiled_when_nothing_changed(install: Compiled) -> None:
    assert install() == []


@pytest.mark.parametrize(
    ("changed", "compiled"),
    [
        ("kernels/softmax/cpu/reference.cpp", "reference.cpp"),
        ("kernels/pool2d/cpu/separable.inl", "pool2d_generic.cpp"),
        pytest.param(
            "kernels/lrn/cuda/launchers.cu",
            "launchers.cu",
            marks=pytest.mark.skipif(not HAS_NVCC, reason="nvcc is not on this machine"),
        ),
    ],
)
def test_a_changed_file_is_compiled_alone(install: Compiled, tree: Path, changed: str, compiled: str) -> None:
    with (tree / "csrc" / changed).open("a") as file:
        file.write("// changed\n")

    assert install() == [compiled]


def files_of_the_walk() -> dict[str, str]:
    """Path and text of the code blocks under "Add an operator", each below a line that ends with its path."""
    page = (ROOT / "CONTRIBUTING.md").read_text().split("## Add an operator\n")[1].split("\n## ")[0]
    words, *blocks = page.split("\n```")
    found = {}
    for code, after in zip(blocks[::2], blocks[1::2]):
        found[words.rstrip(":\n").split("`")[-2]] = code.split("\n", 1)[1] + "\n"
        words = after
    return found


def test_an_operator_is_added_by_the_files_of_the_walk_alone(install: Compiled, tree: Path) -> None:
    files = files_of_the_walk()
    adapter = tree / "profkit" / "frameworks" / "numpy" / "operators.py"
    adapter.write_text(f"{adapter.read_text()}\n\n{files.pop('profkit/frameworks/numpy/operators.py')}")
    for path, code in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(code)

    compiled = install()

    assert sorted(files) == [
        "csrc/kernels/scale/arrays.cpp",
        "csrc/kernels/scale/cpu/kernels.cpp",
        "csrc/kernels/scale/params.h",
        "profkit/ops/scale.py",
        "profkit/scale.py",
    ]
    # Kernels of other operators are not compiled again: the lists of rows and the binding are, several at a time.
    assert compiled
    assert all(name.startswith("unity_") for name in compiled)
    # The fresh environment has profkit alone: NumPy and the like are this one's, behind its own packages.
    own = sysconfig.get_path("purelib", vars={"base": str(tree.parent / "venv")})
    packages = os.pathsep.join([own, *{str(Path(module.__file__ or "").parents[1]) for module in (np, rich)}])
    result = tree.parent / "result.json"
    command = [str(tree.parent / "venv" / "bin" / "python"), "-m", "profkit"]
    quick = ["--count", "1000", "--factor", "3", "--only", "native,numpy", "--budget", "0.2s", "--quiet"]
    succeed(
        [*command, "scale", *quick, "--json", str(result)],
        {**os.environ, "PYTHONPATH": packages, "PROFKIT_CACHE": str(tree.parent / "cache")},
    )
    [cell] = json.loads(result.read_text())["cells"]
    assert {row["key"]: row["status"] for row in cell["rows"] if "/cpu" in row["key"]} == {
        "scale/native/cpu/reference": "ok",
        "scale/numpy/cpu": "ok",
    }
