"""Clock, losses and blocks out of order: what replaying must survive."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.capture.builders import CLOCK, DEFINITIONS, EVENTS, CaptureBuilder, block, blocks_of_type, read_blocks, rows

PROCESS_ID = 0xABC000


def with_clock(builder: CaptureBuilder, points: list[tuple[int, int, int]]) -> list[bytes]:
    """The builder's blocks with other sync points."""
    clock = block(CLOCK, b"".join(struct.pack("<Qqq", *point) for point in points), PROCESS_ID)
    return [clock if made[8:12] == struct.pack("<I", CLOCK) else made for made in builder.blocks()]


@pytest.mark.parametrize("first_tick", [0, (1 << 44) - 5, (1 << 63) - 7, 3 * (1 << 44) + 12345])
def test_times_survive_the_wrap_of_the_44_bit_clock(tmp_path: Path, first_tick: int) -> None:
    builder = CaptureBuilder(first_tick=first_tick).begin(0, "a").begin(3, "b").end(7).end(20)

    capture = builder.read(tmp_path)

    assert rows(capture) == [("a", 0, 20, -1), ("b", 3, 7, 0)]


def test_a_time_event_bridges_a_long_pause(tmp_path: Path) -> None:
    pause = 5 * (1 << 44) + 17
    builder = CaptureBuilder().begin(1, "a").time(pause).begin(pause + 1, "b").end(pause + 3).end(pause + 9)

    capture = builder.read(tmp_path)

    assert rows(capture) == [("a", 1, pause + 9, -1), ("b", pause + 1, pause + 3, 0)]


def test_ticks_become_nanoseconds_by_the_sync_points(tmp_path: Path) -> None:
    builder = CaptureBuilder(ticks_per_ns=2.5).begin(1000, "a").end(2000)

    capture = builder.read(tmp_path)

    assert rows(capture) == [("a", 1000, 2000, -1)]


def test_a_clock_that_changes_its_rate_is_followed_and_its_drift_told(tmp_path: Path) -> None:
    second = 1_000_000_000
    builder = CaptureBuilder(first_tick=0).begin(second // 2, "a").end(second + second // 2)
    points = [(0, 0, 10), (second, second, 10), (2 * second, 2 * second + 20_000, 10)]

    capture = read_blocks(with_clock(builder, points), tmp_path)

    assert rows(capture) == [("a", second // 2, second + second // 2 + 10_000, -1)]
    assert capture.processes[0].clock_drift_ppm == pytest.approx(10, abs=0.1)
    assert capture.processes[0].clock_error_ns >= 10


def test_a_sync_point_taken_while_interrupted_is_left_out(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).begin(2000, "a").end(4000)
    points = [(0, 0, 10), (1000, 900_000, 600_000), (10_000, 10_000, 10)]

    capture = read_blocks(with_clock(builder, points), tmp_path)

    assert rows(capture) == [("a", 2000, 4000, -1)]
    assert capture.processes[0].clock_error_ns < 100


def test_times_never_run_back_however_the_sync_points_contradict_each_other(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).begin(100, "a").begin(200, "b").end(300).end(400)
    points = [(0, 5000, 10), (250, 100, 10), (350, 90, 10), (1000, 6000, 10)]

    capture = read_blocks(with_clock(builder, points), tmp_path)

    (_, a_start, a_end, _), (_, b_start, b_end, _) = rows(capture)
    assert 0 <= a_start <= b_start <= b_end <= a_end


def test_a_process_with_one_sync_point_takes_the_rate_of_another(tmp_path: Path) -> None:
    builder = CaptureBuilder(ticks_per_ns=2.0)
    builder.process(1).begin(0, "a").end(1000).process(2).begin(100, "b").end(500)
    blocks = builder.blocks()
    index = blocks_of_type(blocks, CLOCK)[1]
    blocks[index] = block(CLOCK, struct.pack("<Qqq", 1_004_000, 1_002_000, 20), PROCESS_ID + 1)

    capture = read_blocks(blocks, tmp_path)

    assert rows(capture) == [("a", 0, 1000, -1), ("b", 100, 500, -1)]


def test_a_process_without_sync_points_takes_the_clock_of_another_and_says_so(tmp_path: Path) -> None:
    builder = CaptureBuilder(ticks_per_ns=2.0)
    builder.process(1).begin(0, "a").end(1000).process(2).begin(100, "b").end(500)

    capture = builder.read_without(CLOCK, 1, tmp_path)

    assert rows(capture) == [("a", 0, 1000, -1), ("b", 100, 500, -1)]
    assert any("1 process without a clock" in sentence for sentence in capture.warnings)


def test_blocks_of_a_thread_are_put_in_order(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "a").cut().begin(2, "b").part().end(3).cut().end(4)
    blocks = builder.blocks()
    events = blocks_of_type(blocks, EVENTS)
    reordered = list(blocks)
    for place, source in zip(events, reversed(events)):
        reordered[place] = blocks[source]

    capture = read_blocks(reordered, tmp_path)

    assert rows(capture) == [("a", 1, 4, -1), ("b", 2, 3, 0)]
    assert capture.warnings == ()


def test_a_block_that_comes_twice_counts_once(tmp_path: Path) -> None:
    blocks = CaptureBuilder().begin(1, "a").end(2).blocks()

    capture = read_blocks([*blocks, blocks[blocks_of_type(blocks, EVENTS)[0]]], tmp_path)

    assert rows(capture) == [("a", 1, 2, -1)]
    assert any("does not allow" in sentence for sentence in capture.warnings)


def test_after_a_lost_block_ranges_go_on_at_the_snapshot(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "stays").begin(2, "ends unseen").mark(3, "m").cut()
    builder.end(4).begin(5, "begins unseen").cut().mark(6, "n").end(7).end(8)

    capture = builder.read_without(EVENTS, 1, tmp_path)

    assert rows(capture) == [
        ("stays", 1, 8, -1),
        ("ends unseen", 2, 3, 0),
        ("m", 3, 3, 1),
        ("begins unseen", 5, 7, 0),
        ("n", 6, 6, 3),
    ]
    assert capture.ranges.is_open.tolist() == [False, True, False, False, False]
    assert any("events are missing at 1 place" in sentence for sentence in capture.warnings)


def test_between_a_loss_and_the_snapshot_memory_and_marks_are_kept(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "a").part().begin(2, "lost").part()
    builder.alloc(3, 0x1000, 10).mark(4, "m").end(5).cut().end(9)

    capture = builder.read_without(EVENTS, 1, tmp_path)

    assert rows(capture) == [("a", 1, 9, -1), ("m", 4, 4, -1)]
    assert (capture.allocations.bytes.tolist(), capture.allocations.range.tolist()) == ([10], [-1])
    assert any(sentence.startswith("1 begin or end event left out") for sentence in capture.warnings)


def test_the_deepest_allowed_stack_is_read(tmp_path: Path) -> None:
    builder = CaptureBuilder()
    for depth in range(1024):
        builder.begin(depth, f"level {depth % 7}")
    builder.cut()
    for depth in range(1024):
        builder.end(2000 + depth)

    capture = builder.read(tmp_path)

    assert capture.ranges.depth.tolist() == list(range(1024))
    assert capture.ranges.end_ns.tolist() == [3023 - depth for depth in range(1024)]
    assert capture.warnings == ()


def test_names_whose_definition_is_lost_are_told_apart(tmp_path: Path) -> None:
    blocks = CaptureBuilder().begin(1, "a").end(2).blocks()

    capture = read_blocks([made for made in blocks if made[8] != 2], tmp_path)

    assert rows(capture) == [("(name lost)", 1, 2, -1)]
    assert any("1 range without a name" in sentence for sentence in capture.warnings)


def test_names_that_are_no_utf_8_are_mended(tmp_path: Path) -> None:
    text = struct.pack("<8I", 1, 1, 0, 0, 0, 0, 0, 7) + b"ab\xffc\xe2\x82\xac\0"
    label = struct.pack("<8I", 4, 1, 1, 0, 0, 0, 2, 0)
    definitions = block(DEFINITIONS, text + label, PROCESS_ID)
    blocks = [definitions if made[8] == 2 else made for made in CaptureBuilder().begin(1, "a").end(2).blocks()]

    capture = read_blocks(blocks, tmp_path)

    assert rows(capture) == [("ab\ufffdc\u20ac", 1, 2, -1)]
