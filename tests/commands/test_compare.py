"""`profkit.compare`: two files in, a table, files and an exit code for CI out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.run import joined_runs, load_run, save_run
from profkit.measurement.statistics import noise_floor
from profkit.rendering.tables.document import Document
from profkit.rendering.usage.comparison import SCHEMA
from tests.capture.builders import CaptureBuilder
from tests.capture.network_captures import Event, network_capture, op, recording_of
from tests.support.typed import Typed


def network_file(
    folder: Path,
    name: str,
    seed: int,
    steps: int = 30,
    conv_us: float = 800.0,
    kind: str = "aten::relu",
    begin: int = 0,
    **more: Any,
) -> str:
    """Steps of about 1 ms: a convolution, another operator, a little dispatch; 1 % of noise."""
    chance = random.Random(seed)
    events: list[Event] = []
    bounds: list[tuple[int, int]] = []
    at = begin
    for _ in range(steps):
        conv, other = (int(1000 * us * chance.gauss(1.0, 0.01)) for us in (conv_us, 150.0))
        events.append(op("aten::convolution", at + 9_000, at + 9_000 + conv, layer="conv1", phase="forward"))
        events.append(op(kind, at + 20_000 + conv, at + 20_000 + conv + other, layer="conv1", phase="forward"))
        bounds.append((at, at + 30_000 + conv + other))
        at += 5_000_000
    recording = recording_of(*events, steps=bounds)
    unrecorded = [int((end - start) * chance.gauss(0.98, 0.01)) for start, end in bounds]
    path = folder / name
    save_run(network_capture(recording, **{"step_ns": unrecorded, **more}), path)
    return str(path)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose noise floors were measured, and are low."""
    monkeypatch.setattr(noise_floor, "machine_time_floor", lambda: (0.001, "measured 2026-11-02"))
    monkeypatch.setattr(noise_floor, "machine_floor", lambda: (0.001, "measured 2026-11-02"))


@pytest.fixture
def before(tmp_path: Path) -> str:
    return network_file(tmp_path, "before.profkit", seed=1)


def test_a_reader_that_goes_away_changes_neither_exit_code_nor_files(
    tmp_path: Path, before: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_pipe(*_: object) -> None:
        raise BrokenPipeError

    slower = network_file(tmp_path, "slower.profkit", seed=2, conv_us=1000.0)
    monkeypatch.setattr(Document, "print", break_pipe)
    monkeypatch.setattr("profkit.commands.showing.abandon_stdout", lambda: None)

    typed.says("compare", before, slower, "--fail-on", "5%", "--json", str(tmp_path / "out.json"), code=4)

    assert (tmp_path / "out.json").exists()


def test_the_same_thing_recorded_twice_passes_and_that_one_process_was_seen_is_said(
    before: str, tmp_path: Path, typed: Typed
) -> None:
    text = typed.says("compare", before, network_file(tmp_path, "again.profkit", seed=2), "--fail-on", "5%")

    assert "step, not recorded: no difference of 2.0% or more" in text
    assert "passed: nothing that matters is slower by more than 5.0%, as far as resolved" in text
    assert "the variance inside one process each" in text
    assert "only one process each was seen, and two processes differ by themselves: profkit network --runs 3" in text


def test_a_slower_operator_fails_the_check_and_is_named_unless_it_is_within_the_limit(
    before: str, tmp_path: Path, typed: Typed
) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, conv_us=1000.0)

    text = typed.says("compare", before, after, "--fail-on", "5%", code=4)

    assert "step, not recorded: b is slower" in text
    assert "FAILED: slower by more than 5.0%, resolved: step, not recorded by" in text
    assert "; conv1/forward/aten::convolution by 2" in text
    typed.shows("compare", before, after, "--fail-on", "40%")
    typed.shows("compare", before, after)
    typed.shows("compare", after, before, "--fail-on", "5%")  # faster is no failure


def test_on_a_machine_whose_floor_is_not_known_small_changes_are_not_resolved(
    before: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_floor, "machine_time_floor", lambda: (0.015, "assumed"))

    text = typed.says("compare", before, network_file(tmp_path, "again.profkit", seed=2))

    assert "step, not recorded: not resolved" in text
    assert "the noise floor of times, 1.5% (assumed; profkit doctor --noise measures it)" in text


def test_operators_that_came_and_went_are_rows(before: str, tmp_path: Path, typed: Typed) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, kind="aten::clamp_min")

    lines = typed.shows("compare", before, after).splitlines()

    assert next(line for line in lines if "aten::relu" in line).endswith("gone")
    assert next(line for line in lines if "clamp_min" in line).endswith("added")
    assert "gone" not in typed.shows("compare", before, after, "--by", "kind")


def test_a_single_step_is_not_resolved_is_no_failure_and_says_what_to_do(
    before: str, tmp_path: Path, typed: Typed
) -> None:
    short = network_file(tmp_path, "short.profkit", seed=2, steps=1, conv_us=2000.0)

    text = typed.says("compare", before, short, "--fail-on", "5%")

    assert "step, not recorded: not resolved" in text
    assert "record both again with profkit network and about --steps 12 for the step" in text


def test_a_check_of_unequal_runs_is_refused_unless_forced(before: str, tmp_path: Path, typed: Typed) -> None:
    other = network_file(tmp_path, "other.profkit", seed=2, threads=2, versions={"version": "9"})

    refused = typed.refuses("compare", before, other, "--fail-on", "5%")
    forced = typed.says("compare", before, other, "--fail-on", "5%", "--force")

    assert "warning: threads differs: a 1, b 2" in refused
    assert "--force" in refused and "version" not in refused
    assert "warning: threads differs: a 1, b 2 torch version differs: a 1.2.3, b 9" in forced


@pytest.mark.parametrize(
    ("busy", "told"),
    [
        ({"load": 0.9}, ""),
        ({"load": 3.2}, "busy machine: load 3.2 on 2 processors"),
        ({"load": 3.2, "others_share": 0.02}, ""),  # the load was profkit's own, or over
        ({"load": 0.1, "others_share": 0.37}, "busy machine: other programs took 37% of these processors (load 0.1)"),
        ({"load": 0.1, "others_share": 0.01, "stolen_share": 0.05}, "busy machine: other guests took 5.0% of them"),
        ({"disturbed_share": 0.6}, "busy machine: 60% of its blocks of steps were disturbed"),
    ],
)
def test_nothing_fails_by_times_of_a_busy_machine_unless_forced(
    before: str, tmp_path: Path, typed: Typed, busy: dict[str, Any], told: str
) -> None:
    process = {"steps": 30, "recorded": {"time": 30}, "captures": 1, "machine": busy}
    facts: dict[str, Any] = {"environment": {"cpu": "a machine", "cpus_usable": [0, 1]}, "processes": [process]}
    words = ["compare", before, network_file(tmp_path, "slower", seed=2, conv_us=1000.0, **facts), "--fail-on", "5%"]

    text = typed.says(*words, code=0 if told else 4)

    assert (f"warning: b: {told}" in text and "not resolved: whether something is slower" in text) == bool(told)
    assert "FAILED" in typed.says(*words, "--force", code=4)


def several(folder: Path, name: str, seed: int, shares: Sequence[float], conv_us: Sequence[float]) -> str:
    """A run of so many processes, in which others took these shares of the machine."""
    runs = []
    for number, (share, each_us) in enumerate(zip(shares, conv_us)):
        process = {"steps": 8, "recorded": {"time": 8}, "captures": 1, "machine": {"others_share": share}}
        path = network_file(folder, "part", seed + number, 8, each_us, begin=number * 10**9, processes=[process])
        runs.append(load_run(path))
    save_run(joined_runs(runs), folder / name)
    return str(folder / name)


def test_several_processes_are_judged_by_their_variance_and_disturbed_ones_left_out(
    tmp_path: Path, typed: Typed
) -> None:
    a = several(tmp_path, "a", 1, [0.0, 0.0, 0.0], [800, 830, 815])
    wide = several(tmp_path, "wide", 11, [0.0, 0.0, 0.0], [860, 950, 905])
    clear = several(tmp_path, "clear", 21, [0.0, 0.6, 0.0, 0.0], [1230, 4000, 1260, 1245])

    unclear = typed.says("compare", a, wide, "--fail-on", "5%")
    text = typed.says("compare", a, clear, "--fail-on", "5%", code=4)
    content = typed.json("compare", a, clear, "--fail-on", "5%", code=4)

    assert "the variance between processes (a: 3, b: 3)" in unclear
    assert "step, not recorded: not resolved" in unclear and "profkit network --runs" in unclear
    assert "only one process" not in unclear
    assert "b: 1 process dropped: process 2: other programs took 60% of these processors" in text
    assert "verdicts are corrected for the number of rows (Holm," in text
    assert "step, not recorded: b is slower" in text
    assert content["processes"] == {"a": 3, "b": 3}
    assert content["corrected_for"] == len(content["rows"]) + len(content["totals"]) - 1
    (row,) = [row for row in content["rows"] if row["name"].endswith("convolution")]
    assert (row["processes_b"], row["samples_b"]) == (3, 24)


def test_more_than_half_of_the_processes_disturbed_is_too_busy_to_judge(tmp_path: Path, typed: Typed) -> None:
    a = several(tmp_path, "a", 1, [0.0, 0.0, 0.0], [800, 830, 815])
    b = several(tmp_path, "b", 11, [0.3, 0.0, 0.4], [1600, 1610, 1620])

    text = typed.says("compare", a, b, "--fail-on", "5%")

    assert "warning: b: busy machine: 2 of 3 processes were disturbed: other programs took 30%" in text
    assert "too busy to judge" in text and " slower" not in text.partition("verdict")[2].partition("not resolved:")[0]


def test_frameworks_are_compared_by_layer(before: str, tmp_path: Path, typed: Typed) -> None:
    other = network_file(tmp_path, "tf.profkit", seed=2, framework="tensorflow")

    assert "conv1/forward 9" in typed.says("compare", before, other)


def test_json_and_markdown_hold_all_rows(before: str, tmp_path: Path, typed: Typed) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, conv_us=1000.0)

    words = ["compare", before, after, "--top", "1", "--fail-on", "5%", "--markdown", tmp_path / "c.md"]
    content = typed.json(*words, code=4)

    assert content["schema"] == SCHEMA
    assert content["failed"] == ["step, not recorded", "conv1/forward/aten::convolution"]
    rows = {row["name"]: row for row in content["rows"]}
    assert rows["conv1/forward/aten::convolution"]["verdict"] == "slower"
    assert rows["conv1/forward/aten::convolution"]["high"] < 1 / 1.05
    assert rows["conv1/forward/aten::relu"]["samples_a"] == 30
    markdown = (tmp_path / "c.md").read_text()
    assert "| conv1/forward/aten::relu |" in markdown and "| (dispatch) |" in markdown


def test_traced_programs_are_compared_by_the_calls_of_their_ranges(tmp_path: Path, typed: Typed) -> None:
    paths = []
    for name, took in (("a", 100_000), ("b", 150_000)):
        builder = CaptureBuilder()
        for call in range(20):
            builder.begin(1_000_000 * call, "load").end(1_000_000 * call + took + call * 100)
        paths.append(builder.write(tmp_path / f"{name}.profkit"))

    text = typed.says("compare", *paths)

    assert "times of a call" in text
    assert "load 100.9 µs 150.9 µs +50.00 µs" in text and "slower" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "colour"], "no grouping 'colour'; groupings: kind, name, thread, type, operator, layer, phase"),
        (["--fail-on", "5 apples"], "expected a share such as 2% or 0.02"),
        (["--margin", "200%"], "expected a share"),
        (["--top", "0"], "--top takes a number"),
        (["--json", "missing/folder/x"], "there is no folder"),
        (["--fail"], "did you mean --fail-on?"),
    ],
)
def test_wrong_words_are_explained(before: str, words: list[str], said: str, typed: Typed) -> None:
    assert said in typed.refuses("compare", before, before, *words)


def test_captures_without_a_common_row_are_refused(before: str, tmp_path: Path, typed: Typed) -> None:
    traced = CaptureBuilder().begin(0, "a").end(5).write(tmp_path / "traced.profkit")

    assert "they have no rows in common" in typed.refuses("compare", before, traced)
