"""`python -m profkit.env`: what it says and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.frameworks import environments
from profkit.frameworks.environments import IsolatedFramework
from tests.support.tiny_environments import made_tiny, tiny
from tests.support.typed import Typed


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedFramework:
    """The only framework there is."""
    foreign = tiny(tmp_path, monkeypatch)
    monkeypatch.setattr(environments, "FOREIGN", {"tiny": foreign})
    return foreign


def test_from_nothing_to_an_environment_and_back(framework: IsolatedFramework, typed: Typed) -> None:
    folder = environments.environments_folder() / "tiny"

    before = typed("env", "list")
    created = typed("env", "create", "tiny")
    listed = typed("env", "list")
    checked = typed("env", "check")
    removed = typed("env", "remove", "tiny")
    again = typed("env", "remove", "tiny")

    assert before[:2] == (
        0,
        "tiny  not made  tiny has no environment yet\n" + 16 * " " + f"type: {framework.create_line}\n",
    )
    assert created[0] == 0
    assert created[1].startswith(f"tiny is ready: {folder} (Python 3.")
    assert "installing tiny==1.0" in created[2]
    assert listed[0] == 0 and "tiny  ready  tiny 1.0" in listed[1]
    assert checked[:2] == (0, "tiny works: tiny 1.0\n")
    assert removed[:2] == (0, f"removed {folder}\n")
    assert again[:2] == (0, f"tiny has no environment ({folder})\n")


def test_check_ends_with_1_when_there_is_none(framework: IsolatedFramework, typed: Typed) -> None:
    code, out, _ = typed("env", "check")

    assert (code, out) == (1, f"tiny has no environment yet\n  {framework.create_line}\n")


def test_check_shows_what_an_import_says(
    framework: IsolatedFramework, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_tiny(tmp_path, monkeypatch)
    module = next((environments.environments_folder() / "tiny").rglob("tiny.py"))
    module.write_text("raise ImportError('half of it is gone')\n")

    code, out, _ = typed("env", "check", "tiny")

    assert code == 1
    assert "ImportError: half of it is gone" in out
    assert "python -m profkit.env create tiny --again" in out


def test_a_failure_of_pip_ends_with_1_and_its_words(framework: IsolatedFramework, typed: Typed) -> None:
    framework.requirements.write_text("no-such-package==7.1\n")

    code, out, err = typed("env", "create", "tiny")

    assert (code, out) == (1, "")
    assert "No matching distribution found for no-such-package==7.1" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "tini"], "unknown environment 'tini'; did you mean tiny?"),
        (["creat", "tiny"], "unknown action 'creat'; did you mean create?"),
        (["create"], "create needs a name: tiny"),
        (["list", "--again"], "--python and --again belong to create"),
        (["create", "tiny", "--pyton", "x"], "unknown flag --pyton; did you mean --python?"),
        (["create", "tiny", "--python", "/nowhere"], "/nowhere is not a Python interpreter"),
        ([], "ACTION"),
    ],
)
def test_wrong_usage_ends_with_2_and_the_nearest_names(
    framework: IsolatedFramework, typed: Typed, words: list[str], said: str
) -> None:
    assert said in typed.refuses("env", *words)


def test_help_has_examples_and_exit_codes(typed: Typed) -> None:
    out = typed.shows("env", "--help")

    assert "profkit env create theano" in out
    assert "exit codes: 0 done" in out
    assert max(map(len, out.splitlines())) <= 110
