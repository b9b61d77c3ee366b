"""Rows made of invented samples: time, ratio, verdict and order of a table never contradict each other."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from profkit.frameworks.adapter import Implementation
from profkit.measurement import cell_rows
from profkit.measurement.cell import CellRun
from profkit.measurement.checks.conduct import Conduct
from profkit.measurement.disturbance import OthersTurn
from profkit.measurement.options import MeasureOptions
from profkit.measurement.result import Cell, Result, Row
from profkit.measurement.sampling import Contender
from profkit.measurement.statistics.estimates import Estimate, verdict
from profkit.ops import MatMul
from profkit.rendering.results.content import build_tables

KEYS = [f"matmul/numpy/cpu/{name}" for name in "abcdef"]
MARGIN = 0.02


class Watched:
    """A watch that says which rounds were disturbed."""

    def __init__(self, *rounds: int) -> None:
        self._rounds = list(rounds)
        self.others_turns: list[OthersTurn] = []

    def dropped(self) -> dict[str, list[int]]:
        return {"run delay": self._rounds} if self._rounds else {}

    def facts(self) -> dict[str, float]:
        return {}

    def not_watched(self) -> list[str]:
        return []


@pytest.fixture(autouse=True)
def assumed_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_rows, "machine_floor", lambda: (0.005, "assumed"))


def finished(
    samples: dict[str, dict[int, list[float]]],
    dropped: tuple[int, ...] = (),
    starts: tuple[int, ...] = (0,),
    conduct: dict[str, Conduct] | None = None,
) -> Cell:
    """The cell of these samples, by key and round; the first is the baseline."""
    options = MeasureOptions(baseline=KEYS[0], margin=MARGIN)
    pool = cast("Any", SimpleNamespace(options=options, cores=[0], threads=1))
    run = CellRun(MatMul(m=8, n=8, k=8), pool, [Implementation(key, "numpy") for key in samples], lambda *_: None)
    for key, rounds in samples.items():
        run.rows[key].status = "ok"
        times = [(ns, index) for index, group in rounds.items() for ns in group]
        run.contenders[key] = Contender(key, 1e6, [ns for ns, _ in times], [index for _, index in times])
    run.watch = cast("Any", Watched(*dropped))
    run.run_starts = list(starts)
    run.conduct = conduct or {}
    return run.finish({})


def doubted(key: str, call_ns: float, adapter: str) -> Row:
    """A row of these calls, 8 x 8 x 8, on a machine of a GFLOP/s: 1024 operations take a microsecond."""
    pool = cast("Any", SimpleNamespace(options=MeasureOptions(margin=MARGIN), cores=[0], threads=1))
    run = CellRun(MatMul(m=8, n=8, k=8), pool, [Implementation(key, adapter)], lambda *_: None)
    run.rows[key].status = "ok"
    run.contenders[key] = Contender(key, call_ns, [call_ns] * 8, list(range(8)))
    return run.finish({"flops_per_s": 1e9, "bytes_per_s": 1e9}).rows[0]


def test_no_row_is_above_the_peak_without_a_word() -> None:
    assert "above 100 % of the measured peak" in doubted(KEYS[0], 900.0, "numpy").note
    assert "above 100 % of the measured peak" not in doubted(KEYS[0], 1100.0, "numpy").note


def test_a_candidate_below_every_known_algorithm_is_faster_than_the_machine() -> None:
    key = "matmul/candidate/cpu/mine"

    (doubt,) = doubted(key, 500.0, "candidate").doubts
    assert doubt.startswith("faster than the machine: no known algorithm")
    assert not doubted(key, 900.0, "candidate").doubts


def invented(seed: int) -> dict[str, dict[int, list[float]]]:
    """Rows near each other, with outliers, drift and rounds that some do not have."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 40))
    shared = np.exp(0.3 * np.cumsum(generator.normal(0.0, 0.2, count)))
    found: dict[str, dict[int, list[float]]] = {}
    for number, key in enumerate(KEYS):
        true_ns = 1e6 * math.exp(generator.normal(0.0, 0.05))
        period = 1 if number == 0 else int(generator.choice([1, 1, 2, 7]))
        trend = generator.normal(0.0, 0.1)
        found[key] = {
            index: [
                float(true_ns * shared[index] * math.exp(trend * index / count + 0.1 * generator.standard_t(2)))
                for _ in range(int(generator.integers(1, 4)))
            ]
            for index in range(0, count, period)
        }
    return found


def check(cell: Cell) -> None:
    baseline = cell.row(KEYS[0])
    assert baseline.verdict == "baseline" and baseline.median_ns is not None
    for row in cell.rows:
        assert row.median_ns is not None and row.ratio is not None
        assert row.ratio * row.median_ns == pytest.approx(baseline.median_ns)
        if row is not baseline:
            assert row.ratio_low is None or row.ratio_low <= row.ratio <= (row.ratio_high or 0.0)
            assert row.low_ns is None or row.low_ns <= row.median_ns <= (row.high_ns or 0.0)
            said = verdict(Estimate(row.ratio, row.ratio_low, row.ratio_high), MARGIN)
            is_disturbed = row.next_step.startswith("it shares no undisturbed round")
            assert row.verdict == ("not resolved" if cell.is_too_busy or is_disturbed else said)
            assert (row.verdict == "not resolved") == bool(row.next_step)


def shown(cell: Cell) -> list[Row]:
    """Rows in the order of the table."""
    (table,) = build_tables(Result({}, {}, [cell]), ["key"])
    by_key = {row.key: row for row in cell.rows}
    return [by_key[line.texts[-1]] for line in table.lines]


@pytest.mark.parametrize("seed", range(60))
def test_times_ratios_verdicts_and_order_agree_whatever_was_sampled(seed: int) -> None:
    generator = np.random.default_rng(1000 + seed)
    samples = invented(seed)
    count = len(samples[KEYS[0]])
    dropped = tuple(int(index) for index in range(count) if generator.random() < generator.choice([0.0, 0.2, 0.7]))
    starts = (0,) if seed % 2 else (0, count // 2) if count > 3 else (0,)

    cell = finished(samples, dropped, starts)

    check(cell)
    rows = [row for row in shown(cell) if row.ratio is not None]
    times, ratios = [row.median_ns or 0.0 for row in rows], [row.ratio or 0.0 for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    assert times == sorted(times)


def test_what_was_sampled_in_a_dropped_round_changes_nothing() -> None:
    samples = invented(3)
    spoilt = {key: {**rounds, 0: [1e12]} for key, rounds in samples.items()}

    rows, others = (
        [(row.median_ns, row.low_ns, row.ratio, row.ratio_low, row.p99_ns, row.verdict) for row in found.rows]
        for found in (finished(samples, (0,)), finished(spoilt, (0,)))
    )

    assert len(samples[KEYS[0]]) > 4
    assert rows == others
    assert rows != [
        (row.median_ns, row.low_ns, row.ratio, row.ratio_low, row.p99_ns, row.verdict) for row in finished(spoilt).rows
    ]


def test_a_row_of_disturbed_rounds_only_has_a_ratio_and_no_verdict() -> None:
    samples = {KEYS[0]: {index: [1e6] for index in range(9)}, KEYS[1]: {0: [2e6], 5: [2e6]}}

    cell = finished(samples, (0, 5))

    row = cell.row(KEYS[1])
    assert row.ratio == pytest.approx(0.5)
    assert (row.verdict, cell.is_too_busy) == ("not resolved", False)
    assert row.next_step == "it shares no undisturbed round with the baseline: rerun when the machine is quiet"


def test_more_than_half_dropped_is_no_verdict_and_the_head_says_so() -> None:
    samples = {key: {index: [1e6 * (1 + 0.5 * place)] for index in range(9)} for place, key in enumerate(KEYS)}

    judged, busy = finished(samples, (0, 1, 2, 3)), finished(samples, (0, 1, 2, 3, 4))

    assert {row.verdict for row in judged.rows} == {"baseline", "slower"}
    assert {row.verdict for row in busy.rows} == {"baseline", "not resolved"}
    heads = [build_tables(Result({}, {}, [cell]))[0].facts for cell in (judged, busy)]
    assert "4 of 9 rounds dropped (4 by run delay)" in heads[0]
    assert any(line.startswith("too busy to judge: 5 of 9 rounds were disturbed") for line in heads[1])


def test_a_row_that_no_budget_resolves_says_so_and_one_that_a_longer_one_does_names_it() -> None:
    ramp = np.linspace(-0.04, 0.04, 40)
    samples = {
        key: {index: [1e6 / factor * math.exp(0.0 if factor == 1.0 else ramp[index])] for index in range(40)}
        for key, factor in zip(KEYS, (1.0, 1.02, 1.05))
    }

    near, far = (finished(samples).row(key) for key in KEYS[1:3])

    assert (near.verdict, far.verdict) == ("not resolved", "not resolved")
    assert near.next_step.startswith("no budget")
    assert far.next_step == "rerun with --budget 30s"


@pytest.mark.parametrize(("time_ns", "verdict"), [(0.5e6, "doubtful"), (2e6, "slower")])
def test_a_row_that_did_not_keep_to_its_threads_is_never_faster(time_ns: float, verdict: str) -> None:
    samples = {KEYS[0]: {at: [1e6 + at] for at in range(40)}, KEYS[1]: {at: [time_ns + at] for at in range(40)}}
    greedy = Conduct(ran_s=1.0, cpu_s=1.9)

    cell = finished(samples, conduct={KEYS[0]: Conduct(ran_s=1.0, cpu_s=0.9), KEYS[1]: greedy})

    row = cell.row(KEYS[1])
    assert (row.verdict, row.processors) == (verdict, 1.9)
    assert row.doubts == ["it kept 1.9 processors busy in its turns, where 1 thread was requested"]
    assert cell.row(KEYS[0]).doubts == []


def test_a_candidate_is_doubted_when_somebody_hurt_its_rivals() -> None:
    mine = "matmul/candidate/cpu/mine"
    samples = {KEYS[0]: {at: [1e6 + at] for at in range(40)}, mine: {at: [0.5e6 + at] for at in range(40)}}
    conduct = {KEYS[0]: Conduct(is_tampered_with=True), mine: Conduct(), KEYS[1]: Conduct()}

    cell = finished(samples, conduct=conduct)

    assert cell.row(mine).verdict == "doubtful"
    assert f"the processors or the priority of {KEYS[0]} while" in cell.row(mine).doubts[0]
    assert cell.row(KEYS[0]).doubts == []
