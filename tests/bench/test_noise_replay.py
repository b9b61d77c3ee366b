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
    assert [len(run) for run in noise_replay.runs_of(series.half(0), 15)] == [150] * 8


def test_every_estimator_is_about_sound_on_white_noise(tmp_path: Path) -> None:
    record(tmp_path, 0.0)
    (series,) = noise_replay.read_series(tmp_path)

    runs = noise_replay.runs_of(series, 5)
    held = {name: noise_replay.score(runs, how).held for name, how in noise_replay.ESTIMATORS.items()}

    assert all(share > 0.7 for share in held.values()), held


def test_probes_that_follow_the_drift_bring_runs_together(tmp_path: Path) -> None:
    record(tmp_path, 0.002)
    (series,) = noise_replay.read_series(tmp_path)

    known = noise_replay.fitted(series.half(0).logs, series.half(0).probes, series.round_s)
    judged = series.half(1)
    plain, in_run, remembered = (
        float(np.std([run.mean() for run in runs]))
        for runs in (
            noise_replay.runs_of(judged, 15),
            noise_replay.runs_without_probes(judged, 15),
            noise_replay.runs_of(judged, 15, known),
        )
    )

    assert max(in_run, remembered) < 0.5 * plain


def scores(**held_and_width: tuple[float, float]) -> dict[str, list[noise_replay.Score]]:
    return {name: [noise_replay.Score(held, width, 0.0)] for name, (held, width) in held_and_width.items()}


def test_the_narrowest_of_the_sound_estimators_is_chosen() -> None:
    found = scores(narrow=(0.79, 0.1), chosen=(0.81, 0.2), wider=(0.84, 0.3), too_wide=(0.93, 0.15))

    assert noise_replay.choose(found) == "chosen"
    assert noise_replay.choose(scores(narrow=(0.5, 0.1))) is None


def test_a_choice_that_fails_on_the_second_halves_is_said_to_fail() -> None:
    second = scores(chosen=(0.77, 0.2), **{noise_replay.USED: (0.85, 0.3)})

    assert noise_replay.how_it_fares("chosen", second).endswith("missed.")
    assert "was not taken" in noise_replay.in_use("chosen", [second, second])
    assert noise_replay.how_it_fares(noise_replay.USED, second).endswith("met.")


def test_the_page_is_printed_for_a_recording_with_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, 0.002)
    monkeypatch.setattr("sys.argv", ["noise_replay.py", "--quick", str(tmp_path)])

    code = noise_replay.main()

    page = capsys.readouterr().out
    assert code in (0, 1)  # which estimator fits invented noise is not the question
    assert "Chosen: **" in page and "The other way round" in page and "| second | fitted on the first half |" in page


def test_a_folder_without_recordings_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        monkeypatch.setattr("sys.argv", ["noise_replay.py", str(folder)])
        with pytest.raises(SystemExit, match="no recordings"):
            noise_replay.main()
