"""What times of single calls say against a kernel, and against which they say nothing: from invented times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from profkit.measurement.checks.audit import REPEATED_CALLS, REPEATED_INPUTS, AuditLog, CallTimes, audit_finding, ends
from profkit.measurement.checks.auditor import ANSWERED, is_answered
from profkit.measurement.checks.clocks import TurnTime, clock_trouble


def log_of(fresh_ns: Sequence[float], steady_ns: Sequence[float], lead_ns: float = 1e6) -> AuditLog:
    """Times of processors as those of the wall."""
    log = AuditLog()
    for fresh, steady in zip(fresh_ns, steady_ns):
        log.take(CallTimes(fresh, fresh, lead_ns, lead_ns), CallTimes(steady, steady, lead_ns, lead_ns))
    return log


def noisy(seed: int, factor: float, spread: float = 0.3, pairs: int = 11) -> AuditLog:
    """Calls of a millisecond, each disturbed by chance."""
    times = 1e6 * np.exp(np.random.default_rng(seed).normal(0.0, spread, (2, pairs)))
    return log_of(list(factor * times[0]), list(times[1]))


WAITS = CallTimes(12e6, 1e6, 1e6, 1e6)


def test_the_ends_leave_out_as_many_as_leave_the_median_inside_with_98_percent() -> None:
    assert ends([float(i) for i in range(11)]) == (1.0, 9.0)
    assert ends([float(i) for i in range(5)]) == (0.0, 4.0)
    for pairs in range(8, 34):
        low, _ = ends([float(i) for i in range(pairs)])
        outside = 2 * sum(math.comb(pairs, i) for i in range(int(low) + 1)) * 0.5**pairs
        assert outside <= 0.02 or low == 0.0


def test_a_kernel_that_is_slower_on_new_contents_lives_on_repeated_inputs() -> None:
    finding = audit_finding(noisy(1, 3.0), noisy(2, 1.0))

    assert finding is not None and finding.verdict == REPEATED_INPUTS
    assert "calls on new contents take" in finding.words


@pytest.mark.parametrize(
    ("log", "baseline"),
    [
        pytest.param(noisy(1, 1.5, 0.02), noisy(2, 1.5, 0.02), id="the baseline shows it too"),
        pytest.param(noisy(1, 1.15, 0.001), noisy(2, 1.0, 0.001), id="less than the least effect"),
        pytest.param(log_of([3e6] * 11, [3e6] * 11), log_of([3e6] * 11, [3e6] * 11), id="the baseline too alone"),
        pytest.param(log_of([3e4] * 11, [3e4] * 11, 1e4), None, id="calls too short to tell"),
        pytest.param(AuditLog([WAITS] * 11, [WAITS] * 11), None, id="it waits for a processor when it is alone"),
    ],
)
def test_what_says_nothing_is_not_held_against_a_kernel(log: AuditLog, baseline: AuditLog | None) -> None:
    finding = audit_finding(log, baseline) if baseline else audit_finding(log)

    assert finding is not None and finding.verdict == "" and finding.words == ""


def test_noise_alone_accuses_nobody() -> None:
    found = [audit_finding(noisy(seed, 1.0, 0.5), noisy(seed + 10_000, 1.0, 0.5)) for seed in range(500)]

    assert [finding for finding in found if finding is None or finding.verdict] == []


def test_a_kernel_that_is_slower_alone_lives_on_repeated_calls() -> None:
    finding = audit_finding(log_of([3e6] * 11, [3e6] * 11), log_of([1e6] * 11, [1e6] * 11))

    assert finding is not None and finding.verdict == REPEATED_CALLS and "a call alone takes 3 times" in finding.words


def test_what_only_the_processors_clock_shows_counts_on_a_busy_machine() -> None:
    log, generator = AuditLog(), np.random.default_rng(5)
    for wait in generator.exponential(2e7, (33, 2)):
        log.take(CallTimes(4e6 + wait[0], 4e6, 1e6, 1e6), CallTimes(1e6 + wait[1], 1e6, 1e6, 1e6))

    finding = audit_finding(log)

    assert finding is not None and finding.verdict == REPEATED_INPUTS and log.is_noisy


def log_of_changing(poked_ns: Sequence[float], sample_ns: float) -> AuditLog:
    """Samples on changing contents, each beside one that takes as long."""
    return AuditLog(poked=[CallTimes(ns, ns, ns, ns) for ns in poked_ns], sample_ns=sample_ns)


def test_a_kernel_that_is_as_slow_beside_changed_contents_is_told_by_its_other_samples() -> None:
    finding = audit_finding(log_of_changing([3e6] * 11, 1e6), log_of_changing([1e6] * 11, 1e6))

    assert finding is not None and finding.verdict == REPEATED_INPUTS
    assert "calls whose inputs change a little take 3 times the time of its other samples" in finding.words


@pytest.mark.parametrize(
    ("log", "baseline"),
    [
        pytest.param(log_of_changing([3e6] * 7, 1e6), None, id="too few"),
        pytest.param(log_of_changing([3e6] * 11, 0.0), None, id="no samples that count"),
        pytest.param(log_of_changing([3e6] * 9 + [1e6] * 2, 1e6), None, id="two were quick"),
        pytest.param(log_of_changing([3e6] * 11, 1e6), log_of_changing([3e6] * 11, 1e6), id="so was the baseline"),
    ],
)
def test_samples_that_were_disturbed_are_not_held_against_a_kernel(log: AuditLog, baseline: AuditLog | None) -> None:
    finding = audit_finding(log, baseline)

    assert finding is not None and finding.verdict == ""


@pytest.mark.parametrize("asked", ANSWERED)
def test_an_answer_without_what_was_asked_for_is_none(asked: str) -> None:
    plain: dict[str, object] = {"samples_ns": [1.0]}

    assert is_answered({"do": "sample"}, plain)
    assert not is_answered({"do": "sample", asked: 1}, plain)
    assert is_answered({"do": "sample", asked: 1}, {**plain, ANSWERED[asked]: 1})


def test_too_few_pairs_say_nothing() -> None:
    assert audit_finding(noisy(1, 9.0, pairs=4)) is None


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([TurnTime(20e6, 0.1e6)] * 5, ""),
        ([TurnTime(2e6, 18e6)] * 5, "reports less time than passes"),
        ([TurnTime(2e6, 18e6)] * 4 + [TurnTime(2e6, 0.2e6)], ""),  # woke late in most turns
        ([TurnTime(2e6, 18e6)] * 2, ""),
        ([TurnTime(20e6, -19e6)] * 5, "reports more time than passes"),
    ],
)
def test_a_clock_is_not_believed_that_differs_in_every_turn(turns: Sequence[TurnTime], words: str) -> None:
    trouble = clock_trouble(turns, 0.1e6)

    assert words in trouble and bool(words) == bool(trouble)


def test_where_all_workers_wake_late_nobody_is_accused() -> None:
    assert clock_trouble([TurnTime(2e6, 18e6)] * 5, 10e6) == ""
