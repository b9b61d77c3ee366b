"""Allocations and releases, written by hand and read back in pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit import _core
from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.schema import AllocationCall
from tests.capture.builders import CaptureBuilder, memory


def test_allocations_are_paired_with_their_release(tmp_path: Path) -> None:
    builder = CaptureBuilder().thread("one").begin(1, "a").alloc(2, 0x1000, 100).alloc(3, 0x2000, 200).end(4)
    builder.thread("two").begin(5, "b").free(6, 0x1000).end(7).free(8, 0x9999)

    capture = builder.read(tmp_path)

    a = capture.allocations
    assert memory(capture) == [(0x1000, 100, 2, 6), (0x2000, 200, 3, -1)]
    assert (a.range.tolist(), a.free_range.tolist()) == ([0, 0], [1, -1])
    assert (a.thread.tolist(), a.free_thread.tolist()) == ([0, 0], [1, -1])
    assert capture.processes[0].frees_of_unknown == 1


MMAP = AllocationCall.MMAP


@pytest.mark.parametrize(
    ("builder", "expected", "columns"),
    [
        pytest.param(
            CaptureBuilder().alloc(2, 0x1000, 100).alloc(5, 0x1000, 50).free(9, 0x1000),
            [(0x1000, 100, 2, 5), (0x1000, 50, 5, 9)],
            {"free_thread": [-1, 0]},
            id="an address given twice ends the first block",
        ),
        pytest.param(
            CaptureBuilder().thread("one").alloc(1, 0x1000, 10).thread("two").alloc(5, 0x1000, 20)
            .thread("one").free(5, 0x1000),
            [(0x1000, 10, 1, 5), (0x1000, 20, 5, -1)],
            {"free_thread": [0, -1]},
            id="a release and an allocation at the same time on two threads are put in order",
        ),
        pytest.param(
            CaptureBuilder().alloc(1, 0x10000, 0x4000, MMAP).alloc(2, 0x90000, 10)
            .unmap(3, 0x11000, 0x1000).unmap(4, 0x12000, 0x2000),
            [(0x10000, 0x1000, 1, -1), (0x11000, 0x1000, 1, 3), (0x12000, 0x2000, 1, 4), (0x90000, 10, 2, -1)],
            {"is_part": [True, False, True, False]},
            id="an unmap splits a mapping",
        ),
        pytest.param(
            CaptureBuilder().alloc(1, 0x10000, 5000, MMAP).alloc(2, 0x12000, 0x1000, MMAP)
            .unmap(3, 0x10000, 0x2001),
            [(0x10000, 5000, 1, 3), (0x12000, 0x1000, 2, 3)],
            {},
            id="an unmap may cover several mappings and whole pages only",
        ),
        pytest.param(
            CaptureBuilder().alloc(1, 0x10000, 0x2000, MMAP).alloc(5, 0x11000, 0x2000, MMAP),
            [(0x10000, 0x1000, 1, -1), (0x11000, 0x1000, 1, 5), (0x11000, 0x2000, 5, -1)],
            {},
            id="a mapping over another replaces what it covers",
        ),
    ],
)  # fmt: skip
def test_blocks_end_where_their_addresses_are_used_or_given_back(
    builder: CaptureBuilder, expected: list[tuple[int, int, int, int]], columns: dict[str, list[int]], tmp_path: Path
) -> None:
    capture = builder.unmap(20, 0x50000, 0x1000).read(tmp_path)

    assert memory(capture) == expected
    assert {name: capture.allocations[name].tolist() for name in columns} == columns
    assert capture.processes[0].frees_of_unknown == 1  # of the unmapping at 20


def test_a_mapping_given_back_page_by_page_was_one_allocation(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(0, "a").alloc(1, 0x10000, 256 * 4096, AllocationCall.MMAP)
    for page in range(256):
        builder.unmap(2 + page, 0x10000 + 4096 * page, 4096)

    usage = usage_of(builder.end(300).read(tmp_path), clock=THREADS)

    assert (usage.rows[0].alloc_calls, usage.rows[0].alloc_bytes, usage.rows[0].live_bytes) == (1, 256 * 4096, 0)
    assert (usage.totals["alloc_calls"], usage.total_alloc_bytes) == (1, 256 * 4096)


def test_allocations_that_find_no_room_in_the_table_are_counted(tmp_path: Path) -> None:
    builder = CaptureBuilder().alloc(1, 0x10000, 0x3000, AllocationCall.MMAP)
    builder.alloc(2, 0x1000, 10).alloc(3, 0x2000, 10).unmap(4, 0x11000, 0x1000)

    content = _core.read_capture(builder.write(tmp_path / "made.profkit"), max_rows=2)

    assert len(content["allocations"]["bytes"]) == 2
    assert content["warnings"] == ["3 allocations left out: a table holds at most 2 rows"]
