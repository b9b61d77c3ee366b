"""`.ci/run` in a small repository whose tools are stand-ins: every step runs, and each that fails makes it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = "native numpy torch tensorflow keras jax numba onnxruntime"
LAYERS = "conv2d lrn pool matmul dispatch"
CELLS = "'base tensorflow' 'base torch' 'base native' 'stride 2 torch'"
# Notes what it was called with and what lies beside the clone, and fails when that has the words of FAILING.
TOOL = """#!/bin/sh
echo "$(basename "$0") $*; beside it: $(echo ../*/)" >> "$CALLS"
[ -z "$FAILING" ] || case "$(basename "$0") $*" in *"$FAILING"*) exit 1 ;; esac
"""
STEPS = {
    "README, Run it": "python -m profkit.conv",
    "selftest": "python -m profkit.selftest",
    "README, Test it": "python -m pytest --quick",
    "the full tier": "python -m pytest -m full",
    "docs, Profile a network": "profkit network",
    "docs, Rerun a study": "profkit study",
    "lint": "ruff check .",
    "format of Python": "ruff format --check .",
    "format of C++": "clang-format --dry-run --Werror a.cpp",
    "types": "mypy",
}


def page(heading: str, command: str, rows: str) -> str:
    """A document with the block that CI types; what it prints looks measured."""
    return f"## {heading}\n\n```\n{command}\nprintf '%s  1.5 ms ±1%%\\n' {rows}\n```\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".ci").mkdir(parents=True)
    (folder / "docs").mkdir()
    (tmp_path / "shared" / "traces").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    tools = "mkdir -p .venv/bin; for name in python profkit ruff mypy clang-format; do cp tool .venv/bin/$name; done"
    (folder / "README.md").write_text(
        page("Run it", f"{tools}\n.venv/bin/python -m profkit.conv", ROWS)
        + page("Test it", ".venv/bin/python -m pytest --quick", "tests")
    )
    (folder / "docs" / "network.md").write_text(page("Profile a network", "profkit network", LAYERS))
    (folder / "docs" / "studies.md").write_text(page("Rerun a study", "profkit study", CELLS))
    (folder / "tool").write_text(TOOL)
    (folder / "tool").chmod(0o755)
    (folder / "a.cpp").write_text("\n")
    return folder


def run(repository: Path, failing: str = "") -> tuple[int, str, list[str]]:
    """Exit code, what was printed, and the calls of the tools."""
    calls = repository.parent / "calls"
    calls.write_text("")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        identity = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        subprocess.run(["git", *identity, *words], cwd=repository, check=True)
    done = subprocess.run(
        [repository / ".ci" / "run"],
        env={**os.environ, "CALLS": str(calls), "FAILING": failing},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines()


def test_all_steps_run_in_a_clone_that_has_the_shared_folder_beside_it(repository: Path) -> None:
    code, printed, calls = run(repository)

    assert code == 0 and "=== all passed" in printed, printed
    commands, beside = zip(*(call.split("; beside it: ") for call in calls))
    assert len(commands) == len(STEPS)
    assert all(command.startswith(expected) for command, expected in zip(commands, STEPS.values()))
    assert set(beside) == {"../profkit/ ../shared/"}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_fails_is_named_and_the_others_run(repository: Path, name: str) -> None:
    code, printed, calls = run(repository, failing=STEPS[name])

    assert code == 1
    assert printed.partition("=== FAILED")[2].splitlines()[1:] == [f"  {name}"]
    assert all(any(command in call for call in calls) for command in STEPS.values())


@pytest.mark.parametrize(
    ("document", "row", "name"),
    [("README.md", " jax", "README, Run it"), ("docs/studies.md", " 'base native'", "docs, Rerun a study")],
)
def test_a_row_that_was_not_measured_fails_its_step(repository: Path, document: str, row: str, name: str) -> None:
    path = repository / document
    path.write_text(path.read_text().replace(row, "", 1))

    code, printed, _ = run(repository)

    assert code == 1 and f"  {name}\n" in printed.partition("=== FAILED")[2]
