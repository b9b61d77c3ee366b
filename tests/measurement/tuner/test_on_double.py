"""`profkit tune --device cuda` through real workers on the double of the CUDA runtime, with emulated kernels.

How fast emulated kernels are says nothing of a GPU: the device's clock is fake, 1 us per thread that ran, so that
what is faster is known and the same on a busy machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.cuda_double import run_on_double

SPEC = ["--m", "33", "--n", "33", "--k", "1", "--device", "cuda"]
TILED, REGISTERS = "matmul/native/cuda/tiled_shared", "matmul/native/cuda/register_tiled"
# The policy takes the larger tiles for this shape.
DEFAULT, OTHER = "32x32x32", "16x16x16"
# Parts of their kernels' mangled names.
DEFAULT_KERNEL, OTHER_KERNEL = "matmul_tiled_sharedILi32E", "matmul_tiled_sharedILi16E"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROFKIT_TUNED", raising=False)
    return tmp_path


def tune(folder: Path, keys: Sequence[str], code: int = 0, **settings: object) -> dict[str, dict[str, Any]]:
    """Outcomes by key."""
    path = folder / "tuning.json"
    # Times without noise need few rounds.
    words = ["-m", "profkit.tune", "matmul", *SPEC, "--only", ",".join(keys), "--budget", "3s", "--quiet"]
    done = run_on_double([*words, "--json", str(path)], clock="threads", **settings)
    assert done.returncode == code, done.stdout + done.stderr
    return {outcome["key"]: outcome for outcome in json.loads(path.read_text())["outcomes"]}


def rows(outcome: dict[str, Any], stage: str = "screening") -> dict[str, dict[str, Any]]:
    """Rows of a stage by configuration, `default` for the policy's."""
    trials = [trial for trial in outcome["trials"] if trial["stage"] == stage]
    return {trial["tuning"].get("configuration", "default"): trial["row"] for trial in trials}


def kept(folder: Path) -> list[dict[str, Any]]:
    file = folder / "cache" / "tuned.json"
    return json.loads(file.read_text())["choices"] if file.exists() else []


def measured_note(folder: Path, *flags: str, **settings: object) -> tuple[str, set[int]]:
    """What the row of the next measurement says, and the sizes of the blocks that it launched."""
    path, log = folder / "result.json", folder / "launches"
    words = ["-m", "profkit.matmul", *SPEC, "--only", TILED, "--budget", "0.1s", "--quiet", *flags]
    done = run_on_double([*words, "--json", str(path)], log=log, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = json.loads(path.read_text())["cells"]
    (row,) = cell["rows"]
    launches = [json.loads(line) for line in log.read_text().splitlines()]
    log.unlink()
    return row["note"], {launch["block"][0] for launch in launches if "tiled_shared" in launch["kernel"]}


@pytest.mark.full
def test_a_configuration_is_measured_verified_confirmed_kept_and_used(cache: Path) -> None:
    outcome = tune(cache, [TILED])[TILED]

    assert outcome["tunables"] == [{"name": "configuration", "default": DEFAULT, "candidates": [OTHER]}]
    for stage in ("screening", "final", "confirmation"):
        found = rows(outcome, stage)
        assert list(found) == ["default", OTHER]
        assert all(0 <= row["max_error"] <= row["tolerance"] for row in found.values())
        assert all(row["timing"] == "CUDA events behind a holding kernel" for row in found.values())
        # 9 blocks of 256 threads against 4 of 1024.
        assert found[OTHER]["ratio"] == pytest.approx(4 * 1024 / (9 * 256), rel=1e-3)
    assert outcome["chosen"] == {"configuration": OTHER}, outcome["reason"]
    (choice,) = kept(cache)
    assert (choice["key"], choice["threads"], choice["tuning"]) == (TILED, 0, {"configuration": OTHER})
    assert choice["measured"]["ratio"][0] == rows(outcome, "confirmation")[OTHER]["ratio"]
    assert measured_note(cache) == (f"tuned: configuration={OTHER}", {16 * 16})
    assert measured_note(cache, "--no-tuned") == ("", {32 * 32})
    assert measured_note(cache, capability=80) == ("", {32 * 32}), "the choice of another device"


@pytest.mark.parametrize(
    ("manner", "status", "words"),
    [
        ("idle", "wrong", ""),
        pytest.param("failing", "crashed", "unspecified launch failure", marks=pytest.mark.full),
    ],
)
def test_a_trial_that_fails_costs_itself_only(cache: Path, manner: str, status: str, words: str) -> None:
    outcomes = tune(cache, [TILED, REGISTERS], manner=f"{manner}@{OTHER_KERNEL}")

    found = rows(outcomes[TILED])
    assert found["default"]["status"] == "ok"
    assert found[OTHER]["status"] == status and words in found[OTHER]["reason"]
    assert outcomes[TILED]["reason"].startswith(f"no trial could be compared with the default; {status}: ")
    assert {row["status"] for row in rows(outcomes[REGISTERS]).values()} == {"ok"}
    assert [choice["key"] for choice in kept(cache)] == [REGISTERS]


def test_where_the_default_fails_nothing_is_kept(cache: Path) -> None:
    outcome = tune(cache, [TILED], code=1, manner=f"failing@{DEFAULT_KERNEL}")[TILED]

    assert rows(outcome)["default"]["status"] == "crashed" and rows(outcome)[OTHER]["status"] == "ok"
    assert "no trial could be compared with the default; crashed: " in outcome["reason"]
    assert not kept(cache)
