"""The tuner's tables: the last stage first, what was chosen marked once, failures with their reasons."""

from __future__ import annotations

import io
import json
from pathlib import Path

from profkit.frameworks.native.tuned import Tuning
from profkit.measurement.result import Row
from profkit.measurement.tuner.search import Trial, Tunable, TuningOutcome, TuningTask
from profkit.ops.matmul import MatMul
from profkit.rendering.results.tuning import outcome_table, write_tuning

KEY = "matmul/native/cpu/blocked"
TASK = TuningTask(KEY, "native", MatMul(60, 70, 80), 1, (Tunable("kc", 80, [40, 20]),))


def trial(tuning: Tuning, stage: str, ratio: float = 1.0, verdict: str = "baseline") -> Trial:
    row = Row(KEY, "ok", median_ns=1000.0 / ratio, ratio=ratio, ratio_low=ratio, ratio_high=ratio)
    row.verdict = verdict
    return Trial(tuning, stage, row)


SCREENING = [
    trial({}, "screening"),
    trial({"kc": 40}, "screening", 1.3, "faster"),
    Trial({"kc": 20}, "screening", Row(KEY, "wrong", "off by 3")),
]
FINAL = [trial({}, "final"), trial({"kc": 40}, "final", 1.2, "faster")]


def cells(outcome: TuningOutcome) -> list[tuple[str, str, str]]:
    """Sizes, stage and mark of every line."""
    return [(line.texts[0], line.texts[1], line.texts[4]) for line in outcome_table(outcome).lines]


def test_what_was_confirmed_is_marked_where_it_was_confirmed() -> None:
    confirmation = [trial({}, "confirmation"), trial({"kc": 40}, "confirmation", 1.1, "faster")]

    outcome = TuningOutcome(TASK, [*SCREENING, *FINAL, *confirmation], {"kc": 40}, "1.100x as fast")

    assert cells(outcome) == [
        ("kc=40", "confirmation", "chosen"),
        ("default", "confirmation", "baseline"),
        ("kc=40", "final", "faster"),
        ("default", "final", "baseline"),
    ]


def test_what_was_not_confirmed_leaves_the_default_chosen() -> None:
    confirmation = [trial({}, "confirmation"), trial({"kc": 40}, "confirmation", 0.9, "slower")]

    outcome = TuningOutcome(TASK, [*SCREENING, *FINAL, *confirmation], {}, "the default stays")

    assert cells(outcome)[:2] == [("default", "confirmation", "chosen"), ("kc=40", "confirmation", "slower")]


def test_the_default_of_several_heats_is_shown_once() -> None:
    heats = [*SCREENING, trial({}, "screening"), trial({"kc": 10}, "screening", 0.8, "slower")]

    outcome = TuningOutcome(TASK, heats, {}, "the default stays: nothing was faster")

    assert [(sizes, mark) for sizes, _, mark in cells(outcome)] == [
        ("kc=40", "faster"),
        ("default", "chosen"),
        ("kc=10", "slower"),
    ]


def test_the_printed_table_ends_with_failures_and_the_reason() -> None:
    output = io.StringIO()

    outcome_table(TuningOutcome(TASK, [*SCREENING, *FINAL], {"kc": 40}, "1.200x as fast as the default")).print(output)

    shown = output.getvalue()
    assert "1 thread; default kc=80" in shown
    assert "kc=20" in shown and "wrong" in shown and "off by 3" in shown
    assert shown.rstrip().endswith("chosen: kc=40, 1.200x as fast as the default")


def test_a_result_full_of_nan_does_not_cost_the_file(tmp_path: Path) -> None:
    wrong = Row(KEY, "wrong", "off by everything", max_error=float("inf"))

    write_tuning(
        [TuningOutcome(TASK, [*FINAL, Trial({"kc": 20}, "final", wrong)], {}, "")], {}, tmp_path / "tuning.json"
    )

    (outcome,) = json.loads((tmp_path / "tuning.json").read_text())["outcomes"]
    assert [trial["row"]["max_error"] for trial in outcome["trials"]] == [None, None, None]
    assert outcome["trials"][1]["row"]["ratio"] == 1.2
