"""The program that compares captures of one network in pairs: what counts as false, and what a slowdown is told by."""

from __future__ import annotations

import random
import subprocess

import compare_pairs
import pytest
from compare_pairs import as_if_quiet, first_process, print_ways, ways

from profkit.capture.run import Run, joined_runs
from tests.capture.network_captures import network_capture, op, recording_of


def made(chance: random.Random, factor: float, others: float = 0.0) -> Run:
    """Three processes of ten steps of about 0.1 ms, which differ by 1 %."""
    parts = []
    for number in range(3):
        begin, level = number * 10**9, factor * chance.gauss(1.0, 0.01)
        lengths = [int(100_000 * level * chance.gauss(1.0, 0.005)) for _ in range(10)]
        steps = [(begin + 10**6 * place, begin + 10**6 * place + length) for place, length in enumerate(lengths)]
        events = [op("conv2d", start, end - 1000, layer="conv1", phase="forward") for start, end in steps]
        process = {"steps": 10, "recorded": {"time": 10}, "captures": 1, "machine": {"others_share": others}}
        capture = network_capture(recording_of(*events, steps=steps), step_ns=lengths, processes=[process])
        parts.append(capture)
    return joined_runs(parts)


@pytest.mark.parametrize(
    ("factors", "others", "is_wrong", "line"),
    [
        ([1.0] * 4, 0.0, False, "| 3 processes | 6 | 3 | 0 | 0 |"),
        ([1.0, 1.6] * 2, 0.0, True, "| 3 processes | 6 | 3 | 0 | 4 |"),
        ([1.0, 1.6] * 2, 0.4, False, "| 3 processes | 6 | 3 | 6 | 0 |"),
    ],
    ids=["equal", "different", "busy"],
)
def test_false_tables_are_counted(
    factors: list[float], others: float, is_wrong: bool, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(3)
    runs = {"torch": [made(chance, factor, others) for factor in factors]}
    pairs = {"torch": [(a, b) for b in range(4) for a in range(b)]}

    found = print_ways(runs, pairs, ways(0.005))

    printed = capsys.readouterr().out
    assert found == is_wrong
    assert line in printed
    forced = next(each for each in printed.splitlines() if each.startswith("| 3 processes, forced"))
    assert forced.split("|")[4].strip() == "0"
    assert (forced.split("|")[-2].strip() == "100 %") == (factors[1] == 1.0)  # a slowdown by half is told


def test_one_process_is_the_first_with_its_steps() -> None:
    run = as_if_quiet(first_process(made(random.Random(1), 1.0, others=0.9)))

    assert (len(run.processes), len(run.step_ns), len(run.captures)) == (1, 10, 1)
    assert run.disturbance() == ""


def test_a_neighbour_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def starting(words: list[str]) -> subprocess.Popen[bytes]:
        started.append(start(words))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", starting)

    with compare_pairs.neighbour(1, is_quiet=False):
        assert started[0].poll() is None

    assert started[0].poll() is not None
