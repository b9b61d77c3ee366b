"""The program that audits honest kernels: accusations are counted, each audit beside one of the baseline."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import audits
import pytest

from profkit.measurement.checks.audit import AuditLog, CallTimes

BASELINE, OTHER = "softmax/torch/cpu", "softmax/numpy/cpu"


def logs(*factors: float) -> list[dict[str, Any]]:
    """An audit of 11 pairs per factor, by which a call on new contents takes longer."""
    found = []
    for factor in factors:
        log = AuditLog()
        for pair in range(11):
            same = 1e6 * (1 + 0.001 * pair)
            log.take(CallTimes(factor * same, factor * same, same, same), CallTimes(same, same, same, same))
        found.append(asdict(log))
    return found


@pytest.mark.parametrize(
    ("baseline", "other", "line", "code"),
    [
        ([1.0, 1.0], [1.0, 1.0], "0 of 4 audits", 0),
        ([1.0, 1.0], [1.0, 1.5], "1 of 4 audits", 1),
        ([1.0, 1.5], [1.0, 1.5], "1 of 4 audits", 1),  # the baseline explains it of the other row, not of itself
        ([1.5, 1.0], [1.0, 1.5], "2 of 4 audits", 1),
    ],
    ids=["honest", "one", "explained", "other_pair"],
)
def test_accusations_are_counted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    baseline: list[float],
    other: list[float],
    line: str,
    code: int,
) -> None:
    rows: dict[str, Any] = {
        key: {"logs": logs(*factors), "baseline": BASELINE} for key, factors in ((BASELINE, baseline), (OTHER, other))
    }
    rows["softmax/numba/cpu"] = {"trouble": "too slow", "baseline": BASELINE}
    (tmp_path / "origin.json").write_text(json.dumps({"date": "2026-01-02", "commit": "abc1234", "machine": "a CPU"}))
    (tmp_path / "softmax.0.json").write_text(json.dumps({"shape": "softmax", "load": 1.5, "rows": rows}))

    assert audits.render(tmp_path) == code

    page = capsys.readouterr().out
    assert line in page and "| softmax | softmax/numba/cpu | 0 |" in page and "median 1.5, at most 1.5" in page
