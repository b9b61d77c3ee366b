"""What `pip install -e .` compiles when it is run again: nothing, or what changed. Compiler calls are counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[1]
# The call is noted, and made without optimisation, which ninja does not see: an object is soon there.
LAUNCHER = '#!/bin/sh\necho "$@" >> "$COMPILER_CALLS"\nexec "$@" -O0\n'
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
        "COMPILER_CALLS": str(log),
        "SKBUILD_CMAKE_DEFINE": "PROFKIT_CUDA=OFF;PROFKIT_ISAS=generic",
    }
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "--no-deps", "-e", "."]

    def run() -> list[str]:
        log.write_text("")
        done = subprocess.run(pip, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if "No matching distribution found for" in done.stderr or "Could not find a version" in done.stderr:
            pytest.skip("pip cannot get what the build needs (scikit-build-core, pybind11)")
        assert done.returncode == 0, done.stdout + done.stderr
        calls = [line.split() for line in log.read_text().splitlines()]
        sources = [Path(words[words.index("-c") + 1]) for words in calls if "-c" in words]
        return sorted(path.name for path in sources if path.is_relative_to(tree / "csrc") or "csrc" in path.parts)

    assert len(run()) > 30
    return run


def test_nothing_is_compiled_when_nothing_changed(install: Compiled) -> None:
    assert install() == []


@pytest.mark.parametrize(
    ("changed", "compiled"),
    [
        ("kernels/softmax/cpu_reference.cpp", "cpu_reference.cpp"),
        ("kernels/pool2d/cpu_separable.inl", "pool2d_generic.cpp"),
    ],
)
def test_a_changed_file_is_compiled_alone(install: Compiled, tree: Path, changed: str, compiled: str) -> None:
    with (tree / "csrc" / changed).open("a") as file:
        file.write("// changed\n")

    assert install() == [compiled]
