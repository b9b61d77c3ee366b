"""Entries about GPUs with right checksums and any numbers: every command answers, or refuses in a sentence."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from profkit import report
from profkit.attribution.account import DEVICES
from profkit.attribution.grouping import groupings_on
from profkit.capture.reading import read
from tests.capture import device_entries as entries
from tests.capture.builders import FIRST_MONOTONIC_NS, CaptureBuilder
from tests.capture.test_hostile_captures import run_commands

MOST = 2**64 - 1


def with_device(*payload: bytes, **description: Any) -> CaptureBuilder:
    builder = CaptureBuilder().process(1000, **description).thread("main").begin(10, "a").end(20).begin(21, "b").end(30)
    return builder.device(*entries.every_entry(builder, builder.token(10)), *payload)


def run_device_commands(path: Path) -> None:
    run_commands(path)
    for by in groupings_on(DEVICES):
        assert report.main([str(path), "--by", by, "--columns", "all"]) == 0


@pytest.mark.parametrize(
    "about",
    [
        5,
        None,
        [],
        {},
        {"state": 5, "message": 7, "version": "x", "library": None},
        {"state": "open", "message": ["\ud800"]},
        {"state": "failed", "message": "\ud800 half a character"},
    ],
)
def test_a_process_may_say_anything_of_cupti(about: Any, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    with_device(cupti=about).write(path)

    run_device_commands(path)


@pytest.mark.parametrize(
    "payload",
    [
        entries.kernel(2**32 - 1, 0, MOST, 2**32 - 1, device=2**32 - 1, stream=2**32 - 1, node=MOST, queued=MOST),
        entries.kernel(1, MOST, 0, 0),
        entries.kernel(1, FIRST_MONOTONIC_NS + 500, FIRST_MONOTONIC_NS + 100, 5),
        entries.copy(MOST, MOST, 6, MOST, 255, 255, 255) + entries.copy(0, MOST, 6, 2**63, 0, 0, 0),
        entries.memset(0, 0, 0, MOST),
        entries.call(2**32 - 1, MOST, 0, 2**32 - 1, 2**32 - 1, 2**32 - 1) + entries.call(0, 0, MOST, 0),
        entries.correlation(MOST, 5) + entries.correlation(0, 2**32 - 1),
        entries.memory(MOST, MOST, MOST, 2**32 - 1) + entries.memory(0, 0, MOST, 0, True, MOST),
        b"".join(entries.memory(FIRST_MONOTONIC_NS + 40, 8 * at, MOST, 5) for at in range(6)),
        entries.overhead(2**32 - 1, MOST, 0) + entries.overhead(0, 0, MOST),
        entries.device(2**32 - 1, 2**32 - 1) + entries.device(0),
        entries.counts(MOST, MOST, MOST, MOST, MOST),
    ],
)
def test_entries_of_any_number_are_survived(payload: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    with_device(payload).write(path)

    run_device_commands(path)


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, -(2**63), 0), (MOST, 2**63 - 1, 0)],
        [(0, 0, -(2**63)), (1, 1, 2**63 - 1)],
        [(2**60, 2**60, 1), (0, 0, 1)],
        [(0, 2**60, 1), (2**60, 0, 1)],
        [(FIRST_MONOTONIC_NS, 2**60, 0), (FIRST_MONOTONIC_NS + 10**9, -(2**60), 0)],
    ],
)
def test_clocks_of_any_rate_are_survived(pairs: list[tuple[int, int, int]], tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    with_device(*(entries.clock(*pair) for pair in pairs)).write(path)

    run_device_commands(path)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12))])
def test_entries_of_random_numbers_are_survived(seed: int, tmp_path: Path) -> None:
    random_numbers = random.Random(seed)
    numbers = [0, 1, 5, 6, 2**31, 2**32 - 1, FIRST_MONOTONIC_NS, FIRST_MONOTONIC_NS + 50, 2**62, 2**63, MOST]

    def any_entry() -> bytes:
        words = [random_numbers.choice([*numbers, random_numbers.getrandbits(64)]) for _ in range(12)]
        return entries.entry(random_numbers.randint(0, 12), struct.pack("<12Q", *words))

    path = tmp_path / "made.profkit"
    with_device(*(any_entry() for _ in range(40))).write(path)

    capture = read(path)
    run_device_commands(path)

    assert capture.has_device and len(capture.activities["kind"]) >= 3
