"""Allocations and releases, written by hand and read back in pairs."""

from __future__ import annotations

from pathlib import Path

from profkit import _core
from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall, Capture
from tests.capture.builders import CaptureBuilder


def read_back(builder: CaptureBuilder, folder: Path) -> Capture:
    return read(builder.write(folder / "made.profkit"))


def memory(capture: Capture) -> list[tuple[int, int, int, int]]:
    """Address, bytes, time and time of release (-1: none) of each allocation."""
    a = capture.allocations
    lines = zip(a.address, a.bytes, a.time_ns, a.free_time_ns)
    return [(int(address), int(size), int(time), int(free)) for address, size, time, free in lines]


def test_allocations_are_paired_with_their_release(tmp_path: Path) -> None:
    builder = CaptureBuilder().thread("one").begin(1, "a").alloc(2, 0x1000, 100).alloc(3, 0x2000, 200).end(4)
    builder.thread("two").begin(5, "b").free(6, 0x1000).end(7).free(8, 0x9999)

    capture = read_back(builder, tmp_path)

    a = capture.allocations
    assert memory(capture) == [(0x1000, 100, 2, 6), (0x2000, 200, 3, -1)]
    assert (a.range.tolist(), a.free_range.tolist()) == ([0, 0], [1, -1])
    assert (a.thread.tolist(), a.free_thread.tolist()) == ([0, 0], [1, -1])
    assert capture.processes[0].frees_of_unknown == 1


def test_an_address_given_twice_ends_the_first_block(tmp_path: Path) -> None:
    builder = CaptureBuilder().alloc(2, 0x1000, 100).alloc(5, 0x1000, 50).free(9, 0x1000)

    capture = read_back(builder, tmp_path)

    assert memory(capture) == [(0x1000, 100, 2, 5), (0x1000, 50, 5, 9)]
    assert capture.allocations.free_thread.tolist() == [-1, 0]


def test_a_release_and_an_allocation_at_the_same_time_on_two_threads_are_put_in_order(tmp_path: Path) -> None:
    builder = CaptureBuilder().thread("one").alloc(1, 0x1000, 10).thread("two").alloc(5, 0x1000, 20)

    capture = read_back(builder.thread("one").free(5, 0x1000), tmp_path)

    assert memory(capture) == [(0x1000, 10, 1, 5), (0x1000, 20, 5, -1)]
    assert capture.allocations.free_thread.tolist() == [0, -1]


def test_an_unmap_splits_a_mapping(tmp_path: Path) -> None:
    builder = CaptureBuilder().alloc(1, 0x10000, 0x4000, AllocationCall.MMAP).alloc(2, 0x90000, 10)

    capture = read_back(builder.unmap(3, 0x11000, 0x1000).unmap(4, 0x12000, 0x2000), tmp_path)

    assert memory(capture) == [
        (0x10000, 0x1000, 1, -1),
        (0x11000, 0x1000, 1, 3),
        (0x12000, 0x2000, 1, 4),
        (0x90000, 10, 2, -1),
    ]
    assert capture.allocations.is_part.tolist() == [True, False, True, False]


def test_a_mapping_given_back_page_by_page_was_one_allocation(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(0, "a").alloc(1, 0x10000, 256 * 4096, AllocationCall.MMAP)
    for page in range(256):
        builder.unmap(2 + page, 0x10000 + 4096 * page, 4096)

    usage = usage_of(read_back(builder.end(300), tmp_path), clock=THREADS)

    assert (usage.rows[0].alloc_calls, usage.rows[0].alloc_bytes, usage.rows[0].live_bytes) == (1, 256 * 4096, 0)
    assert (usage.totals["alloc_calls"], usage.total_alloc_bytes) == (1, 256 * 4096)


def test_allocations_that_find_no_room_in_the_table_are_counted(tmp_path: Path) -> None:
    builder = CaptureBuilder().alloc(1, 0x10000, 0x3000, AllocationCall.MMAP)
    builder.alloc(2, 0x1000, 10).alloc(3, 0x2000, 10).unmap(4, 0x11000, 0x1000)

    content = _core.read_capture(builder.write(tmp_path / "made.profkit"), max_rows=2)

    assert len(content["allocations"]["bytes"]) == 2
    assert content["warnings"] == ["3 allocations left out: a table holds at most 2 rows"]


def test_an_unmap_may_cover_several_mappings_and_whole_pages_only(tmp_path: Path) -> None:
    builder = (
        CaptureBuilder().alloc(1, 0x10000, 5000, AllocationCall.MMAP).alloc(2, 0x12000, 0x1000, AllocationCall.MMAP)
    )
    builder.unmap(3, 0x10000, 0x2001).unmap(4, 0x50000, 0x1000)

    capture = read_back(builder, tmp_path)

    assert memory(capture) == [(0x10000, 5000, 1, 3), (0x12000, 0x1000, 2, 3)]
    assert capture.processes[0].frees_of_unknown == 1


def test_a_mapping_over_another_replaces_what_it_covers(tmp_path: Path) -> None:
    builder = CaptureBuilder().alloc(1, 0x10000, 0x2000, AllocationCall.MMAP)

    capture = read_back(builder.alloc(5, 0x11000, 0x2000, AllocationCall.MMAP), tmp_path)

    assert memory(capture) == [(0x10000, 0x1000, 1, -1), (0x11000, 0x1000, 1, 5), (0x11000, 0x2000, 5, -1)]
