"""Tuning: what is tried, what is chosen, and that a bad trial costs itself only."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from profkit.errors import UsageError
from profkit.frameworks.native.operators import ADAPTER
from profkit.frameworks.native.tuned import Tuning
from profkit.measurement.options import MeasureOptions
from profkit.measurement.result import Row
from profkit.measurement.tuner.search import (
    HEAT,
    Trial,
    Tunable,
    TuningTask,
    choose,
    confirm,
    finalists,
    measure_again,
    trial_implementation,
    tune_kernel,
)
from profkit.measurement.tuner.tasks import choice_of, find_tasks, tunable_kernels
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul

KEY = "matmul/native/cpu/blocked"
SPEC = MatMul(60, 70, 80)


def task(*tunables: Tunable) -> TuningTask:
    return TuningTask(KEY, "native", SPEC, 1, tunables or (Tunable("mc", 60, [30]), Tunable("kc", 80, [40, 20])))


def trial(tuning: Tuning, ratio: float, stage: str = "screening", verdict: str = "faster", status: str = "ok") -> Trial:
    row = Row(KEY, status, "" if status == "ok" else "because", ratio=ratio if status == "ok" else None)
    row.verdict = verdict
    return Trial(tuning, stage, row)


def tunings(trials: Sequence[Tuning]) -> list[Tuning]:
    return sorted(trials, key=str)


def test_every_value_is_tried_with_the_others_at_their_default() -> None:
    assert task().trials == [{"mc": 30}, {"kc": 40}, {"kc": 20}]


@pytest.mark.parametrize(
    ("screening", "expected"),
    [
        (
            [trial({}, 1.0), trial({"mc": 30}, 1.1), trial({"kc": 40}, 1.2), trial({"kc": 20}, 1.05)],
            [{"mc": 30}, {"kc": 40}, {"mc": 30, "kc": 40}],
        ),
        # What was slower or failed.
        (
            [
                trial({"mc": 30}, 0.9, verdict="slower"),
                trial({"kc": 40}, 9.0, status="wrong"),
                trial({"kc": 20}, 9.0, status="crashed"),
            ],
            [],
        ),
    ],
)
def test_the_final_has_the_best_of_each_and_their_combinations(screening: list[Trial], expected: list[Tuning]) -> None:
    assert finalists(task(), screening) == expected


@pytest.mark.parametrize(
    ("trials", "chosen", "reason"),
    [
        (
            [trial({"kc": 40}, 1.5), trial({"kc": 40}, 1.1, "final"), trial({"mc": 30, "kc": 40}, 1.2, "final")],
            {"mc": 30, "kc": 40},
            "1.200x as fast as the default",
        ),
        (
            [trial({"kc": 40}, 1.5), trial({"kc": 40}, 1.1, "final", "not resolved")],
            {},
            "the default stays: whether kc=40 is faster is not resolved",
        ),
        (
            [trial({"kc": 40}, 1.5), trial({"kc": 40}, 1.1, "final", "same")],
            {},
            "the default stays: kc=40 is within the margin",
        ),
        # A gain in the screening alone.
        ([trial({"kc": 40}, 3.0), trial({"kc": 40}, 3.0, "final", status="crashed")], {}, ""),
        (
            [trial({"kc": 40}, 1.0, status="oom"), trial({"kc": 20}, 1.0, status="oom")],
            {},
            "no trial could be compared with the default; oom: because",
        ),
    ],
)
def test_the_fastest_of_the_final_is_chosen_unless_the_gain_is_not_clear(
    trials: list[Trial], chosen: Tuning, reason: str
) -> None:
    outcome = choose(task(), trials)

    assert outcome.chosen == chosen
    assert outcome.reason.startswith(reason)
    assert outcome.is_known == (not reason.startswith("no trial"))


def test_what_is_faster_again_is_chosen_with_the_ratio_of_the_second_time() -> None:
    won = choose(task(), [trial({"kc": 40}, 1.5, "final")])

    outcome = confirm(won, [trial({}, 1.0, "confirmation", "baseline"), trial({"kc": 40}, 1.1, "confirmation")])

    assert outcome.chosen == {"kc": 40}
    assert outcome.reason == "1.100x as fast as the default when measured again against it alone"
    assert choice_of(outcome).measured["ratio"][0] == 1.1


@pytest.mark.parametrize(
    ("again", "words"),
    [
        (trial({"kc": 40}, 1.01, "confirmation", "same"), "1.010x when measured again against it alone (same)"),
        (trial({"kc": 40}, 0.9, "confirmation", "slower"), "0.900x when measured again against it alone (slower)"),
        (
            trial({"kc": 40}, 1.1, "confirmation", status="wrong"),
            "it could not be compared with it again; wrong: because",
        ),
        (trial({}, 1.0, "confirmation", status="oom"), "it could not be compared with it again; oom: because"),
    ],
)
def test_what_wins_the_final_by_chance_is_not_chosen(again: Trial, words: str) -> None:
    won = choose(task(), [trial({"kc": 40}, 1.2, "final")])

    outcome = confirm(won, [again])

    assert outcome.chosen == {} and choice_of(outcome).tuning == {}
    assert outcome.reason == f"the default stays: kc=40 was 1.200x as fast as the default in the final, but {words}"


@pytest.mark.parametrize(("last", "chosen"), [(1.1, {"mc": 30}), (1.0, {})])
def test_the_winner_of_the_final_meets_the_default_alone(
    last: float, chosen: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines on which mc=30 is the fastest until the last time."""
    met: list[tuple[str, list[Tuning], float]] = []

    def measure(_: object, tried: Sequence[Tuning], stage: str, options: MeasureOptions, __: object) -> list[Trial]:
        met.append((stage, list(tried), options.budget_s))
        ratios = {"mc": last if stage == "confirmation" else 1.3, "kc": 1.2}
        found = [(item, ratios[next(iter(item))]) for item in tried]
        rows = [trial(item, ratio, stage, "faster" if ratio > 1.02 else "same") for item, ratio in found]
        return [trial({}, 1.0, stage, "baseline"), *rows]

    monkeypatch.setattr("profkit.measurement.tuner.search._TrialRunner.measure", measure)

    outcome = tune_kernel(task(), MeasureOptions(budget_s=10.0), lambda *_: None)

    assert outcome.chosen == chosen
    assert [stage for stage, _, _ in met] == ["screening", "final", "confirmation"]
    assert met[-1][1] == [{"mc": 30}]
    assert sum(budget_s for _, _, budget_s in met) == pytest.approx(10.0)
    assert [item.tuning for item in outcome.trials if item.stage == "confirmation"] == [{}, {"mc": 30}]


def test_where_the_default_stays_nothing_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []

    def measure(_: object, tried: Sequence[Tuning], stage: str, *__: object) -> list[Trial]:
        stages.append(stage)
        return [trial(item, 1.01, stage, "same") for item in tried]

    monkeypatch.setattr("profkit.measurement.tuner.search._TrialRunner.measure", measure)

    assert tune_kernel(task(), MeasureOptions(), lambda *_: None).chosen == {}
    assert stages == ["screening", "final"]


def test_a_trial_has_a_key_of_its_own_and_the_default_the_kernels() -> None:
    assert trial_implementation(task(), {}).key == KEY
    assert trial_implementation(task(), {"mc": 30, "kc": 40}).key == f"{KEY}@mc=30,kc=40"
    assert trial_implementation(task(), {"mc": 30}).options == {"kernel": KEY, "tuning": "mc=30"}


def test_trials_are_really_measured_and_a_bad_one_costs_itself_only() -> None:
    impossible = task(Tunable("kc", 80, [40, 999_999]))

    outcome = tune_kernel(impossible, MeasureOptions(budget_s=0.2), lambda *_: None)

    rows = {str(item.tuning): item.row for item in outcome.trials if item.stage == "screening"}
    assert rows["{}"].verdict == "baseline" and rows["{}"].max_error is not None
    assert rows["{'kc': 40}"].status == "ok" and rows["{'kc': 40}"].ratio is not None
    assert rows["{'kc': 40}"].percent_of_peak is None, "no peak was measured"
    assert rows["{'kc': 999999}"].status == "crashed"
    assert "kc of matmul/native/cpu/blocked must be a multiple of 1 between 1 and 80" in rows["{'kc': 999999}"].reason
    assert choice_of(outcome).tuning == outcome.chosen
    assert choice_of(outcome).measured["default_ns"] > 0


def test_more_trials_than_a_heat_holds_are_all_measured() -> None:
    sizes = list(range(10, 10 + HEAT + 1))

    outcome = tune_kernel(task(Tunable("kc", 80, sizes)), MeasureOptions(budget_s=0.2), lambda *_: None)

    screened = [item.tuning for item in outcome.trials if item.stage == "screening" and item.tuning]
    assert tunings(screened) == tunings([{"kc": size} for size in sizes])


def test_tasks_are_the_kernels_that_have_something_to_choose() -> None:
    kernels = tunable_kernels("conv2d", [], "cpu")

    tasks, refusals = find_tasks(kernels, Conv2d(2, 8, 9, 9, 12, layout="NHWC"), 1)

    assert [item.key.rpartition("/")[2] for item in tasks if "winograd" not in item.key] == [
        "implicit_gemm",
        "skip_padding",
        "im2col",
        "im2col_batched",
    ]
    assert ("conv2d/native/cpu/direct", "unsupported") in [(item.key, item.status) for item in refusals]


def test_a_small_product_has_nothing_to_choose() -> None:
    assert find_tasks(tunable_kernels("matmul", ["native/blocked"], "all"), MatMul(2, 3, 4), 1) == ([], [])


def test_names_that_name_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match=r"named by 'native/bloked'; did you mean .* \(--dry-run shows all\)"):
        tunable_kernels("matmul", ["native/bloked"], "all")
    with pytest.raises(UsageError, match="matmul has no native kernel on cuda among those named; there is cpu"):
        tunable_kernels("matmul", ["native/cpu/*"], "cuda")


def test_the_fingerprint_names_machine_and_build() -> None:
    fingerprint = ADAPTER.fingerprint(trial_implementation(task(), {}))

    assert set(fingerprint) == {"cpu", "caches_kib", "simd", "profkit", "build"}
    assert all(fingerprint.values())


def test_a_choice_meets_the_default_again_in_new_workers() -> None:
    row = measure_again(task(), {"kc": 40}, MeasureOptions(budget_s=0.2, seed=1), lambda *_: None)

    assert row is not None and row.status == "ok"
    assert row.key == f"{KEY}@kc=40" and row.ratio is not None
