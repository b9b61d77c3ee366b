"""Replies of any form: a candidate's process may send what it likes, which costs its own row, never the run."""

from __future__ import annotations

from pathlib import Path

import pytest

import profkit
from profkit.measurement.workers import protocol
from profkit.measurement.workers.process import reported_failure
from tests.measurement.checks import cheats

RAISES_LATE = """
import profkit.measurement.workers.operator as worker
{replaced}
calls = []
def matmul(spec, a, b):
    calls.append(0)
    if len(calls) > 3 and {raises}:
        raise ValueError
    return product(a, b)
"""
CLAIMS_A_PROCESS = """
really = worker.Worker.do_prepare
worker.Worker.do_prepare = lambda *given, **named: {**really(*given, **named), "worker": os.getppid()}
"""
HOSTILE = {
    "tells_a_number": ("worker.describe = lambda *_, **__: 5", True, "crashed"),
    "tells_that_it_is_ok": ('worker.describe = lambda *_, **__: {"status": "ok", "reason": ""}', True, "crashed"),
    "claims_a_process": (CLAIMS_A_PROCESS, False, "ok"),
}


@pytest.mark.full
def test_the_run_survives_what_its_candidates_reply(tmp_path: Path) -> None:
    for name, (replaced, raises, _) in HOSTILE.items():
        text = cheats.HONEST + RAISES_LATE.format(replaced=replaced, raises=raises)
        (tmp_path / f"{name}.py").write_text(text)

    result = profkit.measure(
        profkit.MatMul(m=64, n=64, k=64),
        only="numpy",
        candidates=[str(tmp_path / f"{name}.py") for name in HOSTILE],
        threads=1,
        budget_s=0.5,
        timeout_s=20.0,
    )

    rows = {row.key.rpartition("/")[2]: row for row in result.cells[0].rows}
    assert rows["cpu"].status == "ok"
    for name, (_, raises, status) in HOSTILE.items():
        assert rows[name].status == status, rows[name].reason
        assert ("reports an invalid error" in rows[name].reason) == raises, rows[name].reason


@pytest.mark.parametrize("error", [5, None, "no", [], {"status": "ok", "reason": ""}, {"status": ["ok"], "reason": ""},
                                   {"status": "wrong", "reason": {}}, {"status": "wrong"}])  # fmt: skip
def test_an_invalid_error_is_a_crash(error: object) -> None:
    failure = reported_failure(error)

    assert failure.status == "crashed" and "reports an invalid error" in failure.reason


def test_a_valid_error_is_passed_on() -> None:
    failure = reported_failure({"status": "wrong", "reason": "dtype float64"})

    assert (failure.status, failure.reason, failure.alive) == ("wrong", "dtype float64", True)


@pytest.mark.parametrize("samples", [None, [], "12", [1.0, "2"], [float("nan")], [float("inf")], [0], [-1.0], {"0": 1}])
def test_invalid_times_are_refused(samples: object) -> None:
    assert not protocol.has_valid_numbers("sample", {"samples_ns": samples, "page_faults": 0})
    assert not protocol.has_valid_numbers("prepare", {"first_call_ns": samples or "none"})


def test_valid_times_are_accepted() -> None:
    assert protocol.has_valid_numbers("sample", {"samples_ns": [1, 2.5], "page_faults": 0.0})
    assert protocol.has_valid_numbers("warm_up", {"samples_ns": [1], "peak_bytes": None})
    assert protocol.has_valid_numbers("start", {"versions": {}})


def test_a_reply_nested_without_end_is_not_a_message() -> None:
    with pytest.raises(ValueError, match="not a message"):
        protocol.parse(b'{"a": ' + b"[" * 100_000)
