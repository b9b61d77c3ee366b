"""The file of tuned choices: what is found again, what is not used, and what survives damage and company."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.errors import UsageError
from profkit.frameworks.native.tuned import (
    DAMAGED,
    Choice,
    TunedChoices,
    find_choice,
    forget_choices,
    is_wanted,
    keep_choices,
    parse_tuning,
    read_choices,
    tuned_file,
    tuning_text,
)
from profkit.ops.matmul import MatMul

KEY = "matmul/native/cpu/blocked"
SPEC = MatMul(64, 65, 66)
HERE = {"cpu": "fast", "caches_kib": "32/1024/32768", "simd": "avx2", "profkit": "1.0", "build": "9 bytes of 1"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    return tmp_path


def choice(**changes: object) -> Choice:
    made = Choice(KEY, SPEC.to_dict(), 2, HERE, {"mc": 96, "kc": 256}, {"ratio": [1.1, 1.05, 1.2]})
    return replace(made, **changes)  # type: ignore[arg-type]


def found(**changes: object) -> Choice | None:
    asked = {"key": KEY, "spec": SPEC, "threads": 2, "fingerprint": HERE, **changes}
    return find_choice(read_choices(), **asked)  # type: ignore[arg-type]


def test_a_choice_is_found_again() -> None:
    keep_choices([choice()])

    assert found() == choice()


@pytest.mark.parametrize(
    "other",
    [
        {"key": "matmul/native/cpu/reference"},
        {"spec": MatMul(64, 65, 67)},
        {"threads": 1},
        *({"fingerprint": {**HERE, name: "other"}} for name in HERE),
    ],
)
def test_a_choice_for_something_else_is_not_used(other: dict[str, object]) -> None:
    keep_choices([choice()])

    assert found(**other) is None


def test_a_new_choice_replaces_the_old_one() -> None:
    keep_choices([choice()])
    keep_choices([choice(tuning={})])

    assert [item.tuning for item in read_choices().choices] == [{}]


def test_choices_of_an_older_build_go_and_those_of_other_machines_stay() -> None:
    elsewhere = choice(fingerprint={**HERE, "cpu": "slow", "build": "8 bytes of 0"})
    keep_choices([choice(fingerprint={**HERE, "build": "8 bytes of 0"}), elsewhere])
    keep_choices([choice()])

    assert list(read_choices().choices) == [elsewhere, choice()]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"schema": "profkit.tuned/9", "choices": []}', "\udcff", '{"schema": 1}', "[" * 100_000]
)
def test_a_broken_file_is_told_ignored_and_rewritten(content: str) -> None:
    tuned_file().write_text(content, encoding="utf-8", errors="surrogateescape")

    known = read_choices()

    assert not known.choices
    assert str(tuned_file()) in known.problem and "ignored" in known.problem
    assert forget_choices(lambda _: True) == 0
    assert read_choices() == known
    keep_choices([choice()])
    assert read_choices() == TunedChoices([choice()])
    kept = tuned_file().with_name(DAMAGED).read_text(encoding="utf-8", errors="surrogateescape")
    assert kept == content


@pytest.mark.parametrize(
    "line",
    [
        {},
        5,
        {**vars(choice()), "threads": "2"},
        {**vars(choice()), "extra": 1},
        *({**vars(choice()), "tuning": {"mc": size}} for size in (None, [1], True, 1.5, 2**63)),
    ],
)
def test_a_damaged_line_costs_itself_only(line: object) -> None:
    keep_choices([choice()])
    data = json.loads(tuned_file().read_text())
    tuned_file().write_text(json.dumps({**data, "choices": [line, *data["choices"]]}))

    known = read_choices()

    assert list(known.choices) == [choice()]
    assert known.problem.endswith("1 damaged line is ignored")


def test_several_tuners_at_once_lose_nothing() -> None:
    program = """
import sys
from profkit.frameworks.native.tuned import Choice, keep_choices
for number in range(15):
    keep_choices([Choice("matmul/native/cpu/blocked", {"m": number}, int(sys.argv[1]), {"cpu": "x"}, {"mc": 8}, {})])
"""
    writers = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in range(4)]

    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert len(read_choices().choices) == 60
    assert sorted(path.name for path in tuned_file().parent.iterdir()) == ["tuned.json", "tuned.lock"]


def test_forgetting_takes_out_what_is_named() -> None:
    keep_choices([choice(), choice(threads=1)])

    assert forget_choices(lambda item: item.threads == 1) == 1
    assert list(read_choices().choices) == [choice()]


def test_forgetting_without_a_file_makes_none() -> None:
    assert forget_choices(lambda _: True) == 0
    assert not tuned_file().exists()


@pytest.mark.parametrize(("word", "expected"), [("0", False), ("off", False), ("No", False), ("1", True), ("", True)])
def test_a_variable_switches_it_off(word: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_TUNED", word)

    assert is_wanted() is expected


def test_text_and_sizes_are_each_other() -> None:
    tuning = parse_tuning("mc=96 kc=256 configuration=128x128x8")

    assert tuning == {"mc": 96, "kc": 256, "configuration": "128x128x8"}
    assert tuning_text(tuning) == "mc=96 kc=256 configuration=128x128x8"


@pytest.mark.parametrize("text", ["mc", "mc=", "=5"])
def test_text_that_is_no_tuning_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        parse_tuning(text)
