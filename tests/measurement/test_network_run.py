"""A network's run in separate processes: checked, timed, recorded; whatever fails is a status or a note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.attribution.passes import run_usage
from profkit.capture.run import Run, RunProcess, load_run, save_run
from profkit.errors import UsageError
from profkit.frameworks.events import MEMORY, Pass, load_source
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement import network_run
from profkit.measurement.contention import ProcessorUse
from profkit.measurement.disturbance import RUN_DELAY
from profkit.measurement.first_step import ExpectedStep
from profkit.measurement.network_run import InterruptedRun, InterruptedRuns, NetworkRequest, run_network, run_networks
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


def test_dropout_is_checked_with_the_masks_of_the_reference() -> None:
    capture = run_network(NetworkRequest(Solar(batch=2), "numpy", is_training=True, steps=1, passes=()))

    assert capture.status == "ok"
    assert capture.error is not None and capture.tolerance is not None and capture.error <= capture.tolerance


def test_float64_is_computed_once_for_all_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ExpectedStep] = []

    def expected(*given: Any) -> ExpectedStep:
        made.append(ExpectedStep(*given))
        return made[-1]

    monkeypatch.setattr(network_run, "ExpectedStep", expected)
    requests = [
        NetworkRequest(Mlp(batch=5, hidden=1, neurons=7), framework, is_training=True, steps=1, passes=(), seed=seed)
        for framework, seed in (("numpy", 0), ("native", 0), ("numpy", 1))
    ]

    runs = run_networks(requests)

    assert [run.status for run in runs] == ["ok"] * 3 and len(made) == 2
    assert all(run.unchecked == [] for run in runs)


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
    assert [worker["ran"] for worker in late.workers] == [{}] and late.workers[0]["argv"][1] == "-c"
    assert poor.status == "oom", poor.reason


def test_several_processes_are_one_run_with_the_steps_of_each(tmp_path: Path) -> None:
    (run,) = run_networks([NetworkRequest(SMALL, "numpy", steps=3, runs=2)])

    once = 3 * (1 + len(run.recorded_step_ns))
    assert (run.status, len(run.processes)) == ("ok", 2)
    assert {worker["ran"]["framework"] for worker in run.workers} == {"numpy"}
    assert all(process["machine"]["minor_faults"] >= 0.0 for process in run.processes)
    assert [len(steps) for steps in run.process_steps()] == [once, once]
    assert all(len(steps) == 6 for steps in run.recorded_step_ns.values())
    assert [len(captures) for captures in run.process_captures()] == [len(run.captures) // 2] * 2
    assert all(process["machine"]["load"] >= 0.0 for process in run.processes)
    pids = {capture.processes[0].pid for capture in run.captures}
    assert len(pids) in (1, 2)  # 0 where a source does not know it
    save_run(run, tmp_path / "run.profkit")
    assert load_run(tmp_path / "run.profkit").processes == run.processes
    for by in ("kind", "layer", "thread"):
        usage = run_usage(run, by)
        assert usage.steps == 6
        assert usage.rows.sum("exclusive_ns") + usage.remainder_ns == usage.wall_ns


class Rounds:
    """Stands in for run_network: a step of 100 ns, unless the call of this number ends otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **ends: Callable[[Run], None]) -> None:
        self.asked: list[str] = []
        self._ends = ends
        monkeypatch.setattr(network_run, "run_network", self)

    def __call__(self, request: NetworkRequest, tell: Callable[[str], None]) -> Run:
        assert request.runs == 1
        self.asked.append(request.framework + ("+learn" if request.learn_s else ""))
        process: RunProcess = {"steps": 2, "recorded": {}, "captures": 0, "machine": {}}
        run = Run(SMALL.to_dict(), request.framework, "eager", 1, False, step_ns=[100, 100], processes=[process])
        if end := self._ends.get(f"call{len(self.asked)}"):
            end(run)
        return run


def failed(run: Run) -> None:
    run.status, run.reason, run.step_ns, run.processes = "crashed", "signal 11", [], []


def stopped(run: Run) -> None:
    run.status, run.reason = "interrupted", "stopped by the user"
    raise InterruptedRun(run)


REQUESTS = [NetworkRequest(SMALL, "numpy", runs=3, learn_s=1.0), NetworkRequest(SMALL, "torch", runs=3)]


def test_frameworks_take_turns_and_learn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch)

    runs = run_networks([replace(REQUESTS[0]), REQUESTS[1]])

    assert rounds.asked == ["numpy+learn", "torch", "numpy", "torch", "numpy", "torch"]
    assert [(run.framework, len(run.processes), len(run.step_ns)) for run in runs] == [("numpy", 3, 6), ("torch", 3, 6)]


def test_a_later_failure_is_a_note_and_a_first_one_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(monkeypatch, call2=failed, call4=failed)

    numpy, torch = run_networks(REQUESTS)

    assert rounds.asked == ["numpy+learn", "torch", "numpy", "numpy"]
    assert (torch.status, torch.reason, torch.processes) == ("crashed", "signal 11", [])
    assert (numpy.status, len(numpy.processes)) == ("ok", 2)
    assert numpy.notes == ["process 3: crashed, signal 11; there are no more"]


def test_an_interruption_keeps_the_processes_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    Rounds(monkeypatch, call3=stopped)

    with pytest.raises(InterruptedRuns) as interrupt:
        run_networks(REQUESTS)

    numpy, torch = interrupt.value.runs
    assert (numpy.status, len(numpy.step_ns), torch.status, len(torch.step_ns)) == ("interrupted", 4, "ok", 2)


@pytest.mark.parametrize(("others_s", "disturbed"), [(0.01, 0.0), (1.0, 0.5)])
def test_threads_that_waited_for_each_other_are_no_disturbance(
    others_s: float, disturbed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([ProcessorUse(10.0, 1, 5.0, 1.0), ProcessorUse(12.0, 1, 6.0 + others_s, 2.0)])
    monkeypatch.setattr(network_run, "processor_use", lambda *_: next(readings))
    watch = network_run._ProcessWatch(0, [0])
    monkeypatch.setattr(watch._watch, "dropped", lambda: {RUN_DELAY: [1]})
    monkeypatch.setattr(watch._watch, "facts", lambda: {"load": 1.0, "others_share": 0.9})
    for _ in range(2):
        with watch.block():
            pass

    facts = watch.facts()

    assert facts["others_share"] == pytest.approx(others_s / 2.0, abs=0.005)
    assert facts["disturbed_share"] == disturbed
