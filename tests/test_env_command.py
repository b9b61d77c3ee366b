"""`python -m profkit.env`: what it says and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_environments import made_tiny, tiny

from profkit import cli, env
from profkit.frameworks import environments
from profkit.frameworks.environments import IsolatedFramework


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedFramework:
    """The only framework there is."""
    foreign = tiny(tmp_path, monkeypatch)
    monkeypatch.setattr(environments, "FOREIGN", {"tiny": foreign})
    return foreign


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `profkit env words...`."""
    code = env.main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_from_nothing_to_an_environment_and_back(
    framework: IsolatedFramework, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = environments.environments_folder() / "tiny"

    before = run(capsys, "list")
    created = run(capsys, "create", "tiny")
    listed = run(capsys, "list")
    checked = run(capsys, "check")
    removed = run(capsys, "remove", "tiny")
    again = run(capsys, "remove", "tiny")

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


def test_check_ends_with_1_when_there_is_none(framework: IsolatedFramework, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check")

    assert (code, out) == (1, f"tiny has no environment yet\n  {framework.create_line}\n")


def test_check_shows_what_an_import_says(
    framework: IsolatedFramework, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_tiny(tmp_path, monkeypatch)
    module = next((environments.environments_folder() / "tiny").rglob("tiny.py"))
    module.write_text("raise ImportError('half of it is gone')\n")

    code, out, _ = run(capsys, "check", "tiny")

    assert code == 1
    assert "ImportError: half of it is gone" in out
    assert "python -m profkit.env create tiny --again" in out


def test_a_failure_of_pip_ends_with_1_and_its_words(
    framework: IsolatedFramework, capsys: pytest.CaptureFixture[str]
) -> None:
    framework.requirements.write_text("no-such-package==7.1\n")

    code, out, err = run(capsys, "create", "tiny")

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
    framework: IsolatedFramework, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code, _, err = run(capsys, *words)

    assert code == 2
    assert said in " ".join(err.split())


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")

    assert code == 0
    assert "profkit env create theano" in out
    assert "exit codes: 0 done" in out
    assert max(map(len, out.splitlines())) <= 110


def test_profkit_env_is_the_same_command(framework: IsolatedFramework, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["env", "list"]) == 0

    assert "not made" in capsys.readouterr().out
