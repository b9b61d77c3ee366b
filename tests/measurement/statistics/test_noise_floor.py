"""The machine's noise floor: Allan deviation of invented series, and what is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profkit.commands.doctor import noise
from profkit.measurement import environment
from profkit.measurement import run as measurement_run
from profkit.measurement.result import Cell, Result, Row
from profkit.measurement.statistics.noise_floor import (
    ASSUMED,
    ASSUMED_OF_TIMES,
    allan_deviation,
    floor_of,
    keep_floors,
    machine_floor,
    machine_time_floor,
)
from profkit.ops import MatMul


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    return tmp_path


def test_the_deviation_of_white_noise_falls_with_the_root_of_the_time() -> None:
    logs = np.random.default_rng(1).normal(0.0, 0.05, 40_000)

    assert allan_deviation(logs, 0.04, 0.04) == pytest.approx(0.05, rel=0.05)
    assert allan_deviation(logs, 0.04, 10.0) == pytest.approx(0.05 / np.sqrt(250), rel=0.3)


def test_a_constant_offset_is_no_noise_and_a_short_series_says_nothing() -> None:
    assert allan_deviation(np.full(100, 0.3), 1.0, 10.0) == pytest.approx(0.0, abs=1e-12)
    assert allan_deviation(np.zeros(29), 1.0, 10.0) is None
    assert floor_of(np.zeros(29), 1.0) is None


def test_the_floor_is_assumed_until_it_was_measured(cache: Path) -> None:
    before = machine_floor(), machine_time_floor()
    keep_floors(0.0031, None)
    between = machine_time_floor()
    keep_floors(0.0031, 0.012)

    after = machine_floor()

    assert before == ((ASSUMED, "assumed"), (ASSUMED_OF_TIMES, "assumed"))
    assert between == before[1]
    assert after[0] == 0.0031 and after[1].startswith("measured 20")
    assert machine_time_floor() == (0.012, after[1])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}', "MACHINE: 7", 'MACHINE: {"floor": "x", "date": "y"}',
                                  'MACHINE: {"floor": -1, "date": "y"}'])  # fmt: skip
def test_a_damaged_file_is_none(cache: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "machine_id", lambda: "me")
    filled = text.replace("MACHINE:", '{"me":') + "}" * text.count("MACHINE")
    (cache / "noise.json").write_text(filled)

    assert machine_floor() == (ASSUMED, "assumed")


def measured(monkeypatch: pytest.MonkeyPatch, scatter: float, **facts: float) -> None:
    """Pretend that the reference pair was measured: 360 rounds in 180 s."""
    noise_of = np.exp(np.random.default_rng(2).normal(0.0, scatter, 360))
    rounds = list(range(360))
    rows = [
        Row(key, "ok", median_ns=1e6, samples_ns=list(1e6 * times), sample_rounds=rounds)
        for key, times in zip(noise.PAIR, (np.ones(360), noise_of))
    ]
    cell = Cell(MatMul(), 1, noise.PAIR[0], {}, "", "hot", rows, rounds=360, machine=facts)
    monkeypatch.setattr(measurement_run, "measure_cells", lambda *_: Result({}, {}, [cell]))


def test_doctor_measures_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 0.02, others_share=0.01)

    found = noise.check_noise(measures=True)

    assert found.status == "works", found.detail
    # White noise of 2 % in rounds of 0.5 s, averaged over 10 to 20 s.
    assert machine_floor()[0] == pytest.approx(0.02 / np.sqrt(30), rel=0.4)
    assert machine_time_floor()[0] == pytest.approx(machine_floor()[0])  # one of the two never varies
    assert "measured 20" in noise.check_noise().detail


def test_the_floor_of_a_busy_machine_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 0.02, others_share=0.3)

    found = noise.check_noise(measures=True)

    assert (found.status, found.fix) == ("note", "profkit doctor --noise")
    assert "30 %" in found.detail
    assert machine_floor() == (ASSUMED, "assumed")
    assert noise.check_noise().detail == "0.5 % assumed"
