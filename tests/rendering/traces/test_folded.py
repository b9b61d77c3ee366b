"""Folded stacks: paths, numbers and separators."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.schema import RangeKind
from profkit.errors import ProfkitError
from profkit.rendering.traces.folded import write_folded_bytes, write_folded_time
from tests.capture.tables import Alloc, Row, capture_of
from tests.viewers.sample_captures import random_capture


def folded(path: Path) -> dict[str, int]:
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return {stack: int(number) for stack, _, number in lines}


def test_every_path_of_a_thread_has_one_line_with_its_own_time(tmp_path: Path) -> None:
    capture = capture_of(
        [
            Row("outer", 0, 100),
            Row("inner", 10, 30, domain="lib"),
            Row("inner", 40, 50, domain="lib"),
            Row("seen", 45, 45, kind=RangeKind.MARK),
            Row("inner", 0, 5, thread="worker", domain="lib"),
        ]
    )

    write_folded_time(capture, tmp_path / "t")

    assert folded(tmp_path / "t") == {"main;outer": 70, "main;outer;lib:inner": 30, "worker;lib:inner": 5}


def test_the_formats_separators_inside_names_are_replaced(tmp_path: Path) -> None:
    capture = capture_of([Row("a;b\nc 7", 0, 9, thread="t;1")])

    write_folded_time(capture, tmp_path / "t")

    assert (tmp_path / "t").read_text() == "t,1;a,b c 7 9\n"


def test_bytes_go_to_the_innermost_range_and_without_one_to_the_thread(tmp_path: Path) -> None:
    capture = capture_of(
        [Row("outer", 0, 100), Row("inner", 10, 30)], [Alloc(15, 64, 50), Alloc(20, 36), Alloc(60, 5), Alloc(200, 7)]
    )

    write_folded_bytes(capture, tmp_path / "t")

    assert folded(tmp_path / "t") == {"main;outer;inner": 100, "main;outer": 5, "main": 7}


def test_all_own_time_of_random_trees_is_in_the_lines(tmp_path: Path) -> None:
    capture = random_capture(seed=3)

    write_folded_time(capture, tmp_path / "t")

    usage = usage_of(capture, "name", clock=THREADS)
    assert sum(folded(tmp_path / "t").values()) == usage.wall_ns - usage.remainder_ns


def test_a_full_disk_is_an_error_with_its_reason() -> None:
    with pytest.raises(ProfkitError, match="could not write /dev/full: No space left"):
        write_folded_time(capture_of([Row("a", 0, 5)]), "/dev/full")
