"""`profkit.compare`: two files in, a table, files and an exit code for CI out."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.run import save_run
from profkit.compare import main
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
    **more: Any,
) -> str:
    """Steps of about 1 ms: a convolution, another operator, a little dispatch; 1 % of noise."""
    chance = random.Random(seed)
    events: list[Event] = []
    bounds: list[tuple[int, int]] = []
    at = 0
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


@pytest.fixture
def before(tmp_path: Path) -> str:
    return network_file(tmp_path, "before.profkit", seed=1)


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_the_same_thing_recorded_twice_passes(before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = network_file(tmp_path, "again.profkit", seed=2)

    code = main([before, again, "--fail-on", "5%"])

    text = printed(capsys)
    assert code == 0
    assert "step, not recorded: no difference of 2.0% or more" in text
    assert "passed: nothing that matters is slower by more than 5.0%" in text


def test_a_slower_operator_fails_the_check_and_is_named(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, conv_us=1000.0)

    code = main([before, after, "--fail-on", "5%"])

    text = printed(capsys)
    assert code == 4
    assert "step, not recorded: b is slower" in text
    assert "FAILED: slower by more than 5.0%, whole interval: step, not recorded by" in text
    assert "; conv1/forward/aten::convolution by 2" in text


def test_what_is_within_the_limit_passes_and_without_a_limit_nothing_fails(before: str, tmp_path: Path) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, conv_us=1000.0)

    assert main([before, after, "--fail-on", "40%"]) == 0
    assert main([before, after]) == 0
    assert main([after, before, "--fail-on", "5%"]) == 0  # faster is no failure


def test_operators_that_came_and_went_are_rows(before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, kind="aten::clamp_min")

    assert main([before, after]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if "aten::relu" in line).endswith("gone")
    assert next(line for line in lines if "clamp_min" in line).endswith("added")
    assert main([before, after, "--by", "kind"]) == 0
    assert "gone" not in capsys.readouterr().out


def test_a_single_step_is_not_resolved_is_no_failure_and_says_what_to_do(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = network_file(tmp_path, "short.profkit", seed=2, steps=1, conv_us=2000.0)

    code = main([before, short, "--fail-on", "5%"])

    text = printed(capsys)
    assert code == 0
    assert "step, not recorded: not resolved" in text
    assert "record both again with profkit network and about --steps 12 for the step" in text


def test_a_check_of_unequal_runs_is_refused_unless_forced(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = network_file(tmp_path, "other.profkit", seed=2, threads=2, versions={"version": "9"})

    assert main([before, other, "--fail-on", "5%"]) == 2
    refused = " ".join(capsys.readouterr().err.split())
    assert main([before, other, "--fail-on", "5%", "--force"]) == 0
    forced = printed(capsys)

    assert "warning: threads differs: a 1, b 2" in refused
    assert "--force" in refused and "version" not in refused
    assert "warning: threads differs: a 1, b 2 torch version differs: a 1.2.3, b 9" in forced


@pytest.mark.parametrize(
    ("busy", "told"),
    [
        ({"load": [0.9, 9.0, 9.0]}, ""),
        ({"load": [3.2, 9.0, 9.0]}, "the machine was busy when it was recorded (load 3.2 on 2 processors)"),
        ({"load": [3.2, 9.0, 9.0], "others_share": 0.02}, ""),  # the load was profkit's own, or over
        ({"load": [0.1, 0.0, 0.0], "others_share": 0.37}, "other programs took 37% of the processors' time"),
    ],
)
def test_nothing_fails_by_times_of_a_busy_machine_unless_forced(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], busy: dict[str, Any], told: str
) -> None:
    environment = {"cpu": "a machine", "cpus_usable": [0, 1], **busy}
    slower = network_file(tmp_path, "slower.profkit", seed=2, conv_us=1000.0, environment=environment)

    code = main([before, slower, "--fail-on", "5%"])
    text = printed(capsys)

    assert code == (0 if told else 4)
    assert (f"warning: b: {told}" in text and "not resolved: whether something is slower" in text) == bool(told)
    assert main([before, slower, "--fail-on", "5%", "--force"]) == 4
    assert "FAILED" in printed(capsys)


def test_frameworks_are_compared_by_layer(before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = network_file(tmp_path, "tf.profkit", seed=2, framework="tensorflow")

    assert main([before, other]) == 0

    assert "conv1/forward 9" in printed(capsys)


def test_json_and_markdown_hold_all_rows(before: str, tmp_path: Path) -> None:
    after = network_file(tmp_path, "after.profkit", seed=2, conv_us=1000.0)
    paths = [str(tmp_path / name) for name in ("c.json", "c.md")]

    code = main([before, after, "--top", "1", "--fail-on", "5%", "--json", paths[0], "--markdown", paths[1]])

    content = json.loads(Path(paths[0]).read_text())
    assert code == 4
    assert content["schema"] == SCHEMA
    assert content["failed"] == ["step, not recorded", "conv1/forward/aten::convolution"]
    rows = {row["name"]: row for row in content["rows"]}
    assert rows["conv1/forward/aten::convolution"]["verdict"] == "slower"
    assert rows["conv1/forward/aten::convolution"]["high"] < 1 / 1.05
    assert rows["conv1/forward/aten::relu"]["samples_a"] == 30
    markdown = Path(paths[1]).read_text()
    assert "| conv1/forward/aten::relu |" in markdown and "| (dispatch) |" in markdown


def test_traced_programs_are_compared_by_the_calls_of_their_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name, took in (("a", 100_000), ("b", 150_000)):
        builder = CaptureBuilder()
        for call in range(20):
            builder.begin(1_000_000 * call, "load").end(1_000_000 * call + took + call * 100)
        paths.append(builder.write(tmp_path / f"{name}.profkit"))

    code = main(paths)

    text = printed(capsys)
    assert code == 0
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


def test_files_that_cannot_be_compared_are_refused(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traced = CaptureBuilder().begin(0, "a").end(5).write(tmp_path / "traced.profkit")
    (tmp_path / "foreign").write_text("hello")

    assert main([before, traced]) == 2
    assert "they have no rows in common" in " ".join(capsys.readouterr().err.split())
    assert main([before, str(tmp_path / "foreign")]) == 1
    assert main([before, str(tmp_path / "missing")]) == 1
    assert "missing" in capsys.readouterr().err
