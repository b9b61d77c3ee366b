"""Percentiles, modes and drift of invented series."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.measurement.statistics.distribution import drift, percentiles, two_modes


def test_percentiles_and_the_trimmed_mean_are_those_of_the_samples() -> None:
    found = percentiles([*range(1, 100), 10_000])

    assert found["p5_ns"] == pytest.approx(5.95)
    assert found["p95_ns"] == pytest.approx(95.05)
    assert 99.0 <= found["p99_ns"] < 10_000
    assert found["trimmed_mean_ns"] == pytest.approx(50.5)


def test_two_modes_are_found_with_their_times_and_share() -> None:
    generator = np.random.default_rng(1)
    times = {index: (5.0 if index % 3 else 6.0) * float(np.exp(generator.normal(0.0, 0.01))) for index in range(60)}

    modes = two_modes(times)

    assert modes is not None
    assert modes[:2] == pytest.approx((5.0, 6.0), rel=0.01)
    assert modes[2] == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential"])
def test_one_mode_is_not_called_two(shape: str) -> None:
    generator = np.random.default_rng(2)
    series = {
        "normal": generator.normal(0.0, 0.1, (300, 40)),
        "uniform": generator.uniform(0.0, 0.3, (300, 40)),
        "exponential": generator.exponential(0.1, (300, 40)),
    }[shape]

    found = [two_modes(dict(enumerate(np.exp(logs)))) for logs in series]

    assert sum(each is not None for each in found) <= 3


def test_modes_closer_than_three_percent_are_not_worth_naming() -> None:
    assert two_modes({index: 1.0 if index % 2 else 1.02 for index in range(40)}) is None


def test_a_drift_is_found_with_its_sign_and_size() -> None:
    generator = np.random.default_rng(3)
    logs = generator.normal(0.0, 0.01, 100) + np.linspace(0.0, 0.05, 100)

    assert drift(logs) == pytest.approx(0.05, abs=0.015)
    assert drift(-logs) == pytest.approx(-0.05, abs=0.015)


def test_white_noise_rarely_drifts() -> None:
    generator = np.random.default_rng(4)

    found = [drift(generator.normal(0.0, 0.05, 60)) for _ in range(500)]

    assert sum(each is not None for each in found) <= 10


def test_few_rounds_tell_neither() -> None:
    assert drift(np.linspace(0.0, 1.0, 8)) is None
    assert two_modes({index: float(1 + index % 2) for index in range(8)}) is None
