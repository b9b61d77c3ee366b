"""`profkit tune`: words in, tables, the file of choices and exit codes out; and the commands that use the choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.native.operators import ADAPTER
from profkit.frameworks.native.tuned import Choice, keep_choices, read_choices, tuned_file
from profkit.measurement.result import Row
from profkit.measurement.tuner.search import Trial, TuningOutcome, TuningTask, choose
from profkit.ops.matmul import MatMul
from tests.support.own_cache import use_own_cache
from tests.support.typed import Typed

KEY = "matmul/native/cpu/blocked"
SMALL = ("--m", "60", "--n", "70", "--k", "80", "--threads", "1")
SPEC = MatMul(60, 70, 80)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.delenv("PROFKIT_TUNED", raising=False)
    return tmp_path


def keep(**sizes: int) -> None:
    fingerprint = ADAPTER.fingerprint(Implementation(KEY, "native"))
    keep_choices([Choice(KEY, SPEC.to_dict(), 1, fingerprint, {**sizes}, {})])


def note(*, threads: int = 1, tuned: bool = True) -> str:
    """What the row of the kernel would say."""
    prepared = ADAPTER.prepare(
        Implementation(KEY, "native"), SPEC, SPEC.make_inputs(), Conditions(threads, tuned=tuned)
    )
    prepared.call()
    return prepared.note


def test_a_dry_run_lists_the_candidates_and_measures_nothing(typed: Typed) -> None:
    out = typed.shows("tune", "matmul", *SMALL, "--dry-run")

    assert "matmul/native/cpu/blocked: m 60, n 70, k 80" in out
    # The width of the columns depends on the tile of the instruction set.
    assert "kc [80] 40, 20" in " ".join(out.split())
    assert not tuned_file().exists()


def test_tuning_measures_verifies_keeps_and_tells(typed: Typed, cache: Path) -> None:
    path = cache / "tuning.json"

    code, out, err = typed("tune", "matmul", *SMALL, "--budget", "0.3s", "--quiet", "--json", path)

    assert code == 0
    assert "default / this" in out and "screening" in out
    assert "kernels run faster with other sizes than the default; kept in" in err
    record = json.loads(path.read_text())
    assert record["schema"] == "profkit.tuning/1"
    (outcome,) = record["outcomes"]
    assert all(0 <= trial["row"]["max_error"] <= trial["row"]["tolerance"] for trial in outcome["trials"])
    (kept,) = read_choices().choices
    assert kept.tuning == outcome["chosen"]
    assert (kept.key, kept.threads, kept.spec) == (KEY, 1, SPEC.to_dict())


def test_the_chosen_sizes_are_used_and_told(typed: Typed) -> None:
    keep(kc=40)

    out = typed.shows("matmul", *SMALL, "--only", "native/blocked", "--budget", "0.2s", "--quiet")

    assert "tuned: kc=40" in out


def test_they_are_not_used_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(kc=40)

    assert note() == "tuned: kc=40"
    assert note(tuned=False) == ""
    assert note(threads=2) == ""
    monkeypatch.setenv("PROFKIT_TUNED", "0")
    assert note() == ""


def test_no_tuned_reaches_the_worker(typed: Typed) -> None:
    keep(kc=40)

    words = ["--only", "native/blocked", "--budget", "0.2s", "--quiet", "--no-tuned"]

    assert "tuned" not in typed.shows("matmul", *SMALL, *words)


def test_sizes_that_the_kernel_refuses_are_told_and_ignored() -> None:
    keep(kc=999)

    assert "the tuned kc=999" in note()
    assert "is ignored: tuning: kc of" in note()


def test_a_name_in_the_place_of_a_size_is_told_and_ignored() -> None:
    fingerprint = ADAPTER.fingerprint(Implementation(KEY, "native"))
    keep_choices([Choice(KEY, SPEC.to_dict(), 1, fingerprint, {"kc": "large"}, {})])

    assert note().endswith("is ignored: sizes must be whole numbers")


def test_a_broken_file_is_told_in_the_row() -> None:
    tuned_file().parent.mkdir(exist_ok=True)
    tuned_file().write_text("{")

    assert "cannot be read and is ignored" in note()


def test_choices_can_be_forgotten_by_spec_or_all(typed: Typed) -> None:
    keep(kc=40)

    assert "0 choices forgotten" in typed("tune", "matmul", "--m", "61", "--forget").err
    assert "1 choice forgotten" in typed("tune", "matmul", "--forget").err
    assert not read_choices().choices


def test_choices_of_a_later_profkit_are_not_forgotten_by_this_one(typed: Typed) -> None:
    tuned_file().parent.mkdir(exist_ok=True)
    tuned_file().write_text('{"schema": "profkit.tuned/2", "choices": [1]}')

    code, _, err = typed("tune", "matmul", "--forget")
    assert code == 0

    words = " ".join(err.split())  # where the lines break depends on the folder's name
    assert "is no profkit.tuned/1 file and is ignored" in words and "0 choices forgotten" in words
    assert "tuned/2" in tuned_file().read_text()


def test_a_cache_folder_that_cannot_be_written_is_told_before_anything_is_measured(
    cache: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    (cache / "file").write_text("")
    monkeypatch.setenv("PROFKIT_CACHE", str(cache / "file" / "cache"))
    monkeypatch.setattr("profkit.tune.tune_kernel", None)

    err = typed.refuses("tune", "matmul", *SMALL)

    assert "choices cannot be stored in" in err and "set PROFKIT_CACHE to a folder of yours" in err


def test_a_run_that_measured_nothing_leaves_an_earlier_choice_alone(
    monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    keep(kc=40)

    def tune_kernel(task: TuningTask, *_: object) -> TuningOutcome:
        rows = [Trial(tuning, "screening", Row(KEY, "oom", "no memory")) for tuning in ({}, *task.trials)]
        return choose(task, rows)

    monkeypatch.setattr("profkit.tune.tune_kernel", tune_kernel)

    code, out, err = typed("tune", "matmul", *SMALL, "--only", "native/blocked", "--quiet")

    assert code == 1
    assert "no trial could be compared with the default; oom: no memory" in " ".join(out.split())
    assert "kept in" not in err
    assert [choice.tuning for choice in read_choices().choices] == [{"kc": 40}]


def test_nothing_to_choose_is_said(typed: Typed) -> None:
    err = typed.refuses("tune", "matmul", "--m", "1", "--only", "native/blocked", code=1)

    assert "there is nothing to tune: these kernels have nothing to choose here" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "name an operator to tune: conv, matmul"),
        (["--batch", "3"], "name an operator to tune: conv, matmul"),
        (["matmull"], "'matmull' has no kernels to tune; did you mean matmul?"),
        (["softmax"], "'softmax' has no kernels to tune; there is conv, matmul"),
        (["conv", "--strid", "2"], "unknown flag --strid; did you mean --stride?"),
        (["matmul", "--only", "torch"], "no implementation is named by 'torch'"),
        (["matmul", "--m", "0"], "m"),
        (["matmul", "--threads", "none"], "threads: expected whole numbers from 1"),
    ],
)
def test_wrong_usage_is_told(words: list[str], expected: str, typed: Typed) -> None:
    assert expected in typed.refuses("tune", *words)


def test_help_shows_the_operators_flags(typed: Typed) -> None:
    own, both = typed.shows("tune", "conv", "--help"), typed.shows("tune", "--help")

    assert "--stride" in own
    assert "--transpose-a" not in own
    assert "conv|matmul" in both
    for flag in ("--stride", "--transpose-a", "--only", "--budget", "--forget", "--json"):
        assert f"  {flag} " in both
