"""Entries about GPUs in capture files made by hand: rows, clocks, ranges of calls, damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.passes import usage_of
from profkit.capture.schema import NONE, Capture, CopyDirection, MemoryKind
from tests.capture import device_entries as entries
from tests.capture.builders import FIRST_MONOTONIC_NS, CaptureBuilder

ORIGIN = FIRST_MONOTONIC_NS  # what the builder calls 0
HOUR = 3_600_000_000_000


def ranged() -> CaptureBuilder:
    """conv from 10 to 300 with inner from 100 to 200, then pool from 310 to 400."""
    builder = CaptureBuilder().process(1).thread("main").begin(10, "conv").begin(100, "inner").end(200).end(300)
    return builder.begin(310, "pool").end(400)


def trace_of(builder: CaptureBuilder, folder: Path) -> Capture:
    capture = builder.read(folder)
    assert capture.has_device
    return capture


def ranges_of(trace: Capture, rows: list[int]) -> list[str]:
    return ["-" if row == NONE else trace.text(int(trace.ranges["name"][row])) for row in rows]


def test_every_kind_of_entry_becomes_its_row(tmp_path: Path) -> None:
    builder = ranged()
    builder.device(*entries.every_entry(builder, builder.token(10)))

    capture = builder.read(tmp_path)
    trace = capture

    assert trace is not None
    table = trace.activities
    assert [table[name].tolist() for name in ("kind", "start_ns", "end_ns", "bytes")] == [
        [0, 1, 2],
        [50, 100, 130],
        [90, 120, 140],
        [NONE, 4096, 64],
    ]
    assert [trace.text(int(name)) for name in table["name"]] == [
        "gemm",
        "Memcpy HtoD (Pageable -> Device)",
        "Memset (Device)",
    ]
    assert table["graph_node"].tolist() == [9, NONE, NONE]
    assert [int(table[name][0]) for name in ("grid_x", "block_x", "registers", "static_shared_bytes")] == [
        4,
        64,
        40,
        128,
    ]
    assert table["direction"].tolist() == [NONE, CopyDirection.HOST_TO_DEVICE, NONE]
    assert table["target_kind"].tolist() == [NONE, MemoryKind.DEVICE, MemoryKind.DEVICE]
    assert trace.calls["start_ns"].tolist() == [20, 95] and trace.calls["return_code"].tolist() == [0, 2]
    assert ranges_of(trace, table["range"].tolist()) == ["conv"] * 3
    assert trace.memory_events["bytes"].tolist() == [512, -512] and trace.memory_events["pool"].tolist() == [0, 0x1234]
    assert trace.devices[0].name == "NVIDIA Double" and trace.devices[0].multiprocessors == 108
    assert trace.losses.device == 3 and trace.facts["overhead_ns"] == {"CUPTI flushes its buffers": 10}
    assert len(capture.warnings) == 5  # one for each of the five counts


def test_a_pool_is_told_by_its_peaks_and_by_what_happened_to_it(tmp_path: Path) -> None:
    builder = ranged()
    sizes = [(0, 4 << 20, 0, 1), (30, 16 << 20, 12 << 20, 0), (40, 16 << 20, 1 << 20, 0), (50, 2 << 20, 1 << 20, 3)]
    shuffled = [sizes[place] for place in (3, 1, 0, 2)]  # CUPTI promises no order
    made = [entries.pool(ORIGIN + time, 0x1234, *rest) for time, *rest in shuffled]
    other = [entries.pool(ORIGIN, 0x9999, 64, 0, 1), entries.pool(ORIGIN + 60, 0x9999, 64, 0, 2)]
    kernel = entries.kernel(builder.string("k"), ORIGIN + 10, ORIGIN + 20, 1)
    builder.device(entries.clock(ORIGIN, ORIGIN), kernel, *made, *other)

    trace = trace_of(builder, tmp_path)

    first, second = trace.facts["memory_pools"]
    assert (first["address"], first["reserved_peak_bytes"], first["used_peak_bytes"]) == (0x1234, 16 << 20, 12 << 20)
    assert (first["reserved_end_bytes"], first["trimmed"], first["destroyed"]) == (2 << 20, 1, 0)
    assert (second["address"], second["reserved_end_bytes"], second["destroyed"]) == (0x9999, 0, 1)
    assert (
        "GPU 0: memory pool 0x1234 reserved at most 16.0 MiB, of which allocations used at most 12.0 MiB, "
        "and was trimmed 1 times"
    ) in usage_of(trace, "operator", clock=DEVICES).notes


def test_a_call_belongs_to_the_range_it_was_told_and_later_ones_without_a_token_to_none(tmp_path: Path) -> None:
    builder = ranged()
    name = builder.string("cudaLaunchKernel")
    builder.device(entries.clock(ORIGIN, ORIGIN), entries.correlation(builder.token(10), 1))
    builder.device(
        entries.call(name, ORIGIN + 150, ORIGIN + 151, 1),  # told: conv, though inner is open
        entries.call(name, ORIGIN + 152, ORIGIN + 153, 2),  # not told: in no range, since inner would have been told
        entries.call(name, ORIGIN + 305, ORIGIN + 306, 3),
        entries.call(name, ORIGIN + 320, ORIGIN + 321, 4, thread=77),
        entries.correlation(12345, 5),  # of a range that is not in the file
        entries.call(name, ORIGIN + 330, ORIGIN + 331, 5),
    )

    trace = trace_of(builder, tmp_path)

    assert ranges_of(trace, trace.calls["range"].tolist()) == ["conv", "-", "-", "-", "pool"]
    assert trace.facts["calls of which both were known and differ"] == 1
    assert (trace.threads.process[-1], trace.threads.os_thread_id[-1], trace.threads.name[-1]) == (0, 77, NONE)
    assert (trace.threads.start_ns[-1], trace.threads.end_ns[-1]) == (320, 321)


def test_a_call_without_a_token_belongs_to_a_range_that_began_before_any_was_told(tmp_path: Path) -> None:
    builder = ranged()
    name = builder.string("cudaLaunchKernel")
    later = builder.token(310)
    builder.device(entries.clock(ORIGIN, ORIGIN), entries.correlation(later, 2))
    builder.device(entries.call(name, ORIGIN + 152, ORIGIN + 153, 1), entries.call(name, ORIGIN + 330, ORIGIN + 331, 2))

    trace = trace_of(builder, tmp_path)

    assert ranges_of(trace, trace.calls["range"].tolist()) == ["inner", "pool"]


def test_a_token_that_came_again_after_hours_means_the_later_range(tmp_path: Path) -> None:
    later = 1 << 44  # the token's bits of the clock repeat
    builder = CaptureBuilder().process(1).thread("main").begin(10, "first").end(20).time(later)
    builder.begin(later + 10, "second").end(later + 20)
    name = builder.string("cudaLaunchKernel")
    builder.device(entries.clock(ORIGIN, ORIGIN), *(entries.correlation(builder.token(10), key) for key in (1, 2)))
    builder.device(entries.call(name, ORIGIN + 12, ORIGIN + 13, 1))
    builder.device(entries.call(name, ORIGIN + later + 12, ORIGIN + later + 13, 2))

    trace = trace_of(builder, tmp_path)

    assert builder.token(10) == builder.token(later + 10)
    assert ranges_of(trace, trace.calls["range"].tolist()) == ["first", "second"]


def test_cuptis_clock_is_turned_into_the_captures_between_and_beyond_its_pairs(tmp_path: Path) -> None:
    builder = ranged()
    name = builder.string("k")
    second = 1_000_000_000
    pairs = [(0, 0), (second + 100_000, second), (2 * second + 200_000, 2 * second)]  # gains 100 us in a second
    builder.device(*(entries.clock(HOUR + fast, ORIGIN + true) for fast, true in pairs))
    places = [-50, 0, second // 2, second + 100_000, 2 * second + 200_000, 2 * second + 201_000]
    builder.device(*(entries.kernel(name, HOUR + place, HOUR + place, key) for key, place in enumerate(places, 1)))

    trace = trace_of(builder, tmp_path)

    assert trace.activities["start_ns"].tolist() == [
        0,  # before the capture began
        0,
        pytest.approx(second // 2 - 50_000, abs=10),
        second,
        2 * second,
        2 * second + 1_000,
    ]


def test_pairs_that_lie_close_together_do_not_bend_the_clock(tmp_path: Path) -> None:
    builder = ranged()
    name = builder.string("k")
    builder.device(entries.clock(HOUR, ORIGIN), entries.clock(HOUR + 1_000, ORIGIN + 3_000, 30))
    builder.device(entries.kernel(name, HOUR + 100, HOUR + 900, 1))

    trace = trace_of(builder, tmp_path)

    assert int(trace.activities["end_ns"][0] - trace.activities["start_ns"][0]) == 800


def test_a_clock_that_was_set_is_told(tmp_path: Path) -> None:
    builder = ranged()
    second = 1_000_000_000
    builder.device(entries.clock(0, ORIGIN), entries.clock(second, ORIGIN + 9 * second))
    builder.device(entries.kernel(builder.string("k"), 10, 20, 1))

    capture = builder.read(tmp_path)

    assert any("1 times the GPU's clock was set" in text for text in capture.warnings)


def test_a_reading_of_the_clock_that_was_interrupted_is_left_out(tmp_path: Path) -> None:
    builder = ranged()
    name, second = builder.string("k"), 1_000_000_000
    good = [entries.clock(place * second, ORIGIN + place * second) for place in range(5)]
    builder.device(*good, entries.clock(second // 2, ORIGIN + second, 500_000_000))
    builder.device(entries.kernel(name, second // 2, second // 2 + 100, 1))

    trace = trace_of(builder, tmp_path)

    assert trace.activities["start_ns"].tolist() == [second // 2]
    assert trace.facts["clock_error_ns"] == 20


def test_without_a_clock_the_records_are_left_out_and_counted(tmp_path: Path) -> None:
    builder = ranged()
    builder.device(entries.kernel(builder.string("k"), 10, 20, 1))

    capture = builder.read(tmp_path)

    assert capture.warnings == (
        "process 1: 1 records of the GPU are left out: no reading of its clock reached the file",
    )


def test_entries_of_a_later_version_are_read_as_far_as_they_are_known(tmp_path: Path) -> None:
    builder = ranged()
    kernel = entries.kernel(builder.string("k"), ORIGIN + 50, ORIGIN + 60, 1)
    longer = struct.pack("<II", 1, len(kernel) + 16) + kernel[8:] + bytes(16)
    builder.device(entries.clock(ORIGIN, ORIGIN), entries.entry(99, bytes(40)), longer, kernel)

    capture = builder.read(tmp_path)

    assert capture.has_device and capture.warnings == ()
    assert capture.activities["start_ns"].tolist() == [50, 50]


@pytest.mark.parametrize(
    "damage",
    [
        entries.entry(1, bytes(8)),  # shorter than a kernel
        struct.pack("<II", 1, 4096) + bytes(8),  # longer than the block
        struct.pack("<II", 1, 12) + bytes(8),  # no multiple of 8
        struct.pack("<II", 1, 0) + bytes(8),
        struct.pack("<II", 1, 2**32 - 8) + bytes(8),
    ],
)
def test_damage_in_a_block_costs_what_stands_behind_it_at_most(damage: bytes, tmp_path: Path) -> None:
    builder = ranged()
    name = builder.string("k")
    builder.device(entries.clock(ORIGIN, ORIGIN), entries.kernel(name, ORIGIN + 50, ORIGIN + 60, 1), damage)
    builder.device(entries.kernel(name, ORIGIN + 70, ORIGIN + 80, 2))

    capture = builder.read(tmp_path)

    assert capture.has_device
    assert capture.activities["start_ns"].tolist() == [50, 70]
    assert len(capture.warnings) == 1


def test_two_processes_keep_their_correlations_apart(tmp_path: Path) -> None:
    builder = CaptureBuilder()
    for pid, range_name in ((1, "of the first"), (2, "of the second")):
        builder.process(pid).thread("main").begin(10, range_name).end(100)
        launch, kernel = builder.string("cudaLaunchKernel"), builder.string(f"kernel {pid}")
        builder.device(
            entries.clock(HOUR * pid, ORIGIN),
            entries.call(launch, HOUR * pid + 20, HOUR * pid + 21, 1),
            entries.kernel(kernel, HOUR * pid + 30, HOUR * pid + 40, 1),
        )

    trace = trace_of(builder, tmp_path)

    names = [trace.text(int(name)) for name in trace.activities["name"]]
    owners = dict(zip(names, ranges_of(trace, trace.activities["range"].tolist())))
    assert owners == {"kernel 1": "of the first", "kernel 2": "of the second"}
    assert trace.activities["start_ns"].tolist() == [30, 30]
    assert [process.pid for process in trace.processes] == [1, 2]
