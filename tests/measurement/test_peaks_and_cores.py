"""Peaks, cores and the environment: kept, bounded, complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.errors import UsageError
from profkit.frameworks.cache import cache_folder
from profkit.measurement import peaks
from profkit.measurement.cores import cores_for, default_threads, usable_cpus
from profkit.measurement.environment import fingerprint


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """Pretended measurements of the peaks: each takes the next number; the cache lies in a fresh folder."""
    answers: list[float] = []
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("profkit._core.peak_flops", lambda dtype, threads: answers.pop(0))
    monkeypatch.setattr("profkit._core.copy_bandwidth", lambda threads: 1.0)
    return answers


def set_share(monkeypatch: pytest.MonkeyPatch, share: float | None) -> None:
    """Pretend what others took of the processors during a measurement."""
    monkeypatch.setattr(peaks, "others_share", lambda before, after: share)


@pytest.mark.parametrize("share", [0.01, pytest.param(None, id="the system does not tell")])
def test_peaks_of_a_quiet_machine_are_measured_once(
    core: list[float], monkeypatch: pytest.MonkeyPatch, share: float | None
) -> None:
    set_share(monkeypatch, share)
    core[:] = [100.0, 999.0]

    first = peaks.machine_peaks("float32", 1)
    second = peaks.machine_peaks("float32", 1)

    assert first == second == {"flops_per_s": 100.0, "bytes_per_s": 1.0, "quiet": 1.0}


def test_peaks_of_a_busy_machine_are_measured_again_and_the_highest_stays(
    core: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_share(monkeypatch, 0.2)
    core[:] = [50.0, 40.0, 90.0]

    found = [peaks.machine_peaks("float32", 1) for _ in range(3)]

    assert [each["flops_per_s"] for each in found] == [50.0, 50.0, 90.0]
    assert [each["quiet"] for each in found] == [0.0, 0.0, 0.0]


def test_a_neighbour_during_the_measurement_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in usable_cpus()]
    try:
        peaks.machine_peaks("float32", 1)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()

    [known] = peaks.read_known(tmp_path / "peaks.json").values()
    assert not known["quiet"]


def test_remeasuring_forgets_what_was_known(core: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    set_share(monkeypatch, 0.01)
    core[:] = [100.0, 80.0]

    peaks.machine_peaks("float32", 1)
    again = peaks.machine_peaks("float32", 1, remeasure=True)

    assert again["flops_per_s"] == 80.0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": {"flops_per_s": "x"}}'])
def test_a_damaged_cache_is_an_empty_one(core: list[float], monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    set_share(monkeypatch, 0.01)
    core[:] = [70.0]
    path = cache_folder() / "peaks.json"
    path.parent.mkdir()
    path.write_text(text)

    found = peaks.machine_peaks("float64", 1)

    assert found["flops_per_s"] == 70.0
    assert len(json.loads(path.read_text())) == 1


def test_a_cache_folder_that_cannot_be_written_costs_nothing_but_time(
    core: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "file" / "below"))
    core[:] = [60.0]

    assert peaks.machine_peaks("float32", 1)["flops_per_s"] == 60.0


def test_cores_are_distinct_usable_and_bounded() -> None:
    cpus = usable_cpus()

    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
    assert cores_for(len(cpus)) == cpus
    assert 1 <= default_threads() <= len(cpus)
    for threads in (0, len(cpus) + 1):
        with pytest.raises(UsageError, match=f"threads {threads}"):
            cores_for(threads)


def test_the_fingerprint_is_plain_data_with_everything_the_issue_names() -> None:
    data = json.loads(json.dumps(fingerprint()))

    wanted = {"cpu", "caches", "simd", "build", "blas", "packages", "governor", "load", "container", "thread_variables"}
    assert wanted <= set(data)
    assert data["simd"]["simd_compiled"] and data["simd"]["simd_supported"]
