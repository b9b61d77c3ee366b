"""The replay of recorded noise, on an invented recording."""

from __future__ import annotations

from pathlib import Path

import noise_replay
import numpy as np
import pytest


def record(folder: Path, drift: float) -> None:
    """Two implementations and two probes, which explain the drift of the second."""
    generator = np.random.default_rng(1)
    state = np.cumsum(generator.normal(0.0, drift, 2400))
    white = generator.normal(0.0, 0.01, (4, 2400))
    ns = 1e6 * np.exp(white + np.outer([0.0, 1.0, 1.0, 0.0], state))
    keys = ["a", "b", "probe/arithmetic", "probe/memory"]
    np.savez(folder / "invented.npz", keys=np.array(keys), ns=ns, seconds_per_round=0.1)


def test_a_recording_is_cut_into_pairs_halves_and_runs(tmp_path: Path) -> None:
    record(tmp_path, 0.0)

    (series,) = noise_replay.read_series(tmp_path)

    assert (series.pair, series.probes.shape) == ("b / a", (2400, 2))
    assert [len(series.half(number).logs) for number in (0, 1)] == [1200, 1200]
    assert [len(run) for run in noise_replay.runs_of(series.half(0), 15, with_probes=False)] == [150] * 8


def test_every_estimator_is_about_sound_on_white_noise(tmp_path: Path) -> None:
    record(tmp_path, 0.0)
    (series,) = noise_replay.read_series(tmp_path)

    held = {name: noise_replay.score(series, 5, how, 0.0).held for name, how in noise_replay.ESTIMATORS.items()}

    assert all(share > 0.7 for share in held.values()), held


def test_probes_that_follow_the_drift_bring_runs_together(tmp_path: Path) -> None:
    record(tmp_path, 0.002)
    (series,) = noise_replay.read_series(tmp_path)

    scatter = [
        float(np.std([run.mean() for run in noise_replay.runs_of(series.half(1), 15, with_probes)]))
        for with_probes in (False, True)
    ]

    assert scatter[1] < 0.5 * scatter[0]


def test_a_folder_without_recordings_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        monkeypatch.setattr("sys.argv", ["noise_replay.py", str(folder)])
        with pytest.raises(SystemExit, match="no recordings"):
            noise_replay.main()
