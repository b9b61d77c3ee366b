"""A network's run in processes of its own: checked, timed, recorded; whatever fails is a status or a note."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from profkit.errors import UsageError
from profkit.frameworks.events import MEMORY, Pass, load_source
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement import network_run
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import Mlp, Solar

SMALL = Mlp(batch=4, hidden=2, neurons=16)


def test_a_run_is_checked_timed_and_recorded() -> None:
    capture = run_network(NetworkRequest(SMALL, "numpy", steps=3))

    assert (capture.status, capture.mode) == ("ok", "eager")
    assert capture.error is not None and capture.tolerance is not None and capture.error <= capture.tolerance
    assert all(len(samples) == 3 for samples in capture.recorded_step_ns.values())
    assert len(capture.step_ns) == 3 * (1 + len(capture.recorded_step_ns))
    assert "synthetic" in capture.data and capture.capture("time") is not None


def test_an_unknown_mode_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="unknown torch mode 'graph'; expected one of eager, channels_last, compile"):
        run_network(NetworkRequest(SMALL, "torch", mode="graph"))


def test_what_cannot_be_checked_is_unsupported() -> None:
    capture = run_network(NetworkRequest(Solar(batch=2), "numpy", is_training=True, steps=1))

    assert capture.status == "unsupported"
    assert "--dropout no" in capture.reason


def test_a_later_process_that_fails_is_a_note_and_costs_its_columns_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithOneMore:
        def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
            first = load_source("numpy").passes(conditions)[0]
            return [first, Pass("memory", (MEMORY,), {"PYTHONHOME": "nowhere"})]  # no interpreter starts so

    monkeypatch.setattr(network_run, "load_source", lambda _: WithOneMore())

    capture = run_network(NetworkRequest(SMALL, "numpy", steps=2))

    assert capture.status == "ok"
    assert len(capture.captures) == 1 and len(capture.step_ns) == 4
    assert any("pass memory: crashed" in note and "columns are missing" in note for note in capture.notes)


def test_a_process_that_does_not_answer_or_has_no_memory_is_a_status() -> None:
    late = run_network(NetworkRequest(SMALL, "numpy", steps=1, timeout_s=0.001))
    poor = run_network(NetworkRequest(Mlp(hidden=1, neurons=30_000, batch=4096), "numpy", memory_limit_bytes=300 << 20))

    assert late.status == "timeout" and "no answer within" in late.reason
    assert poor.status == "oom", poor.reason
