"""Damaged, foreign and hostile files: an error with the next step, or everything intact with a warning."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall
from profkit.errors import CaptureError
from tests.capture import device_entries
from tests.capture.builders import CAPTURE_ID, CaptureBuilder, block, events_block, file_header, word
from tests.capture.device_entries import every_entry
from tests.support.places import SOURCES
from tests.support.sanitized_programs import build_program

FUZZER = Path(__file__).parent / "native" / "fuzz_reader.cpp"
FILES = 100_000
SEED = 20_261_116


def small() -> CaptureBuilder:
    return CaptureBuilder().begin(1, "a").begin(2, "b", payload=3).cut().end(3).alloc(4, 0x1000, 10).end(5)


def eventful() -> CaptureBuilder:
    """Something of every kind."""
    builder = CaptureBuilder(counters=[5, 1, 2, 3])
    builder.thread("main").begin(10, "a", domain="d", category="k", colour=5).begin(12, "b", payload=2.5)
    builder.alloc(13, 1 << 20, 4096).end(20).mark(22, "m", payload=-3).cut().span_begin(23, 7, "sp").end(30)
    builder.begin(31, "c", wide=True).usage(False, 1, 2, 3, 4).begin(32, "o").end(34, 0)
    builder.alloc(35, 0x10000, 0x4000, AllocationCall.MMAP).unmap(36, 0x11000, 0x1000)
    builder.usage(True, 2, 3, 4, 5).end(40).free(41, 1 << 20).begin(42, "left").dropped(43, 4).cut()
    builder.begin(44, "deep").part().end(46).time(1 << 44).mark((1 << 44) + 1, "late")
    builder.thread("worker").begin(15, "x").begin(16, "y").span_end(50, 7).alloc(51, 1 << 20, 999).end(55)
    builder.thread_ends(3, 44, 1).thread("main").end_elsewhere((1 << 44) + 3, opener=1, begin_t=15)
    return builder.sample(20, 1 << 20).sample(60, 1 << 21)


def two_processes() -> CaptureBuilder:
    builder = CaptureBuilder(ticks_per_ns=2.7)
    for pid in (100, 200):
        builder.process(pid, has_ended=pid == 100).thread("main")
        for i in range(6):
            builder.begin(100 * i, f"n{i % 3}").alloc(100 * i + 5, 8192 + i * 64, 2000).begin(100 * i + 10, "in")
            builder.cut().end(100 * i + 50)
        for i in range(5):
            builder.end(700 + i)
        builder.thread("other").begin(33, "q").cut().cut().end(44)
    return builder


def foreign_ends() -> CaptureBuilder:
    builder = CaptureBuilder()
    for i in range(0, 60, 20):
        builder.thread("one").begin(i + 1, "a").begin(i + 2, "b").begin(i + 3, "c").end(i + 4)
        builder.thread("two").end_elsewhere(i + 7, opener=0, begin_t=i + 2).begin(i + 8, "own")
        builder.thread("one").begin(i + 8, "d").end(i + 9).end(i + 10, index=i // 20).mark(i + 11, "m").cut()
        builder.thread("two").end(i + 12)
    return builder


def forked() -> CaptureBuilder:
    """A child that closes what its parent had open, in order, out of order and from another thread."""
    builder = CaptureBuilder().process(10).begin(0, "epoch").end(90).process(11).thread("main")
    builder.inherit(20, "epoch", "step", "load", "row").begin(25, "own").alloc(26, 0x10000, 0x4000, AllocationCall.MMAP)
    builder.end(27, index=1).cut().usage(False, 1, 2, 3, 4).begin(28, "in").unmap(29, 0x11000, 0x1000).end(30).end(31)
    builder.thread("helper").end_elsewhere(33, opener=0, begin_t=23).begin(34, "x").end(35)
    return builder.thread("main").end(40).cut().begin(41, "late").end(42).end(43)


def failing_read(path: Path) -> str:
    with pytest.raises(CaptureError) as caught:
        read(path)
    assert caught.value.exit_code == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty: the program ended before anything was recorded; record one with: python -m profkit.trace"),
        (b'{"traceEvents": []}', "is not a profkit capture; record one with: python -m profkit.trace"),
        (b"PROF", "is cut off within its header (4 bytes)"),
        (file_header()[:100], "is cut off within its header (100 of 4096 bytes)"),
        (file_header(version=2), "was written by a newer profkit (format 2; this one reads 1); type: pip install"),
        (file_header(version=0), "has a damaged header"),
        (file_header()[:20] + b"\xff" + file_header()[21:], "has a damaged header (its checksum is wrong)"),
    ],
)
def test_what_is_no_capture_is_refused_with_the_next_step(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "some.profkit"
    path.write_bytes(content)

    message = failing_read(path)

    assert message.startswith(f"{path}: {sentence}")


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert "no such file; record one with" in failing_read(tmp_path / "missing.profkit")
    assert "is a folder" in failing_read(tmp_path)
    assert "is not a regular file" in failing_read(tmp_path / "pipe")


def test_a_file_cut_anywhere_gives_what_is_before_the_cut(tmp_path: Path) -> None:
    whole = small().build()
    path = tmp_path / "cut.profkit"
    most = 0

    for size in range(4096, len(whole)):
        path.write_bytes(whole[:size])
        capture = read(path)
        assert len(capture.ranges) >= most
        # Only between two blocks the cut leaves no trace; that the end block misses is then told.
        assert capture.warnings or size == 4096
        most = len(capture.ranges)

    assert most == 2


def test_a_flipped_byte_anywhere_is_noticed_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = small().build()
    path = tmp_path / "flipped.profkit"

    for at in range(4096, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        capture = read(path)
        assert any("damaged between byte" in s or "ends within a block" in s for s in capture.warnings)
        assert capture.strings


def test_a_flipped_byte_in_the_header_is_an_error_or_harmless(tmp_path: Path) -> None:
    whole = small().build()
    path = tmp_path / "flipped.profkit"

    for at in range(4096):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if at < 64:
            failing_read(path)
        else:
            assert len(read(path).ranges) == 2


def test_damage_names_its_place_and_size(tmp_path: Path) -> None:
    blocks = small().blocks()
    rubbish = b"\x00PBK1 rubbish"
    path = tmp_path / "rubbish.profkit"
    path.write_bytes(file_header() + blocks[0] + rubbish + b"".join(blocks[1:]))

    capture = read(path)

    start = 4096 + len(blocks[0])
    assert capture.warnings == (f"damaged between byte {start} and {start + len(rubbish)}: 13 bytes skipped",)
    assert len(capture.ranges) == 2


def test_blocks_of_another_capture_are_not_taken_for_ours(tmp_path: Path) -> None:
    foreign = block(1, b"{}", capture_id=CAPTURE_ID + 1)
    path = tmp_path / "mixed.profkit"
    path.write_bytes(file_header() + foreign + b"".join(small().blocks()))

    capture = read(path)

    assert len(capture.processes) == 1
    assert len(capture.warnings) == 1


def test_unknown_blocks_are_skipped_and_counted(tmp_path: Path) -> None:
    blocks = small().blocks()
    path = tmp_path / "later.profkit"
    path.write_bytes(file_header() + blocks[0] + block(17, bytes(64), 0xABC000) + b"".join(blocks[1:]))

    capture = read(path)

    assert len(capture.ranges) == 2
    assert capture.warnings == (
        "1 block skipped: of a kind that this version does not know; a newer profkit reads more",
    )


def test_a_file_made_of_false_starts_ends_the_search(tmp_path: Path) -> None:
    # Each claims a mebibyte of payload: checking all would take hours.
    false_start = b"PBK1" + struct.pack("<IIIQQ", 0, 4, 1 << 20, CAPTURE_ID, 1)
    path = tmp_path / "slow.profkit"
    path.write_bytes(file_header() + b"".join(small().blocks()) + false_start * 300_000)

    capture = read(path)

    assert len(capture.ranges) == 2
    assert any("too damaged to be searched" in sentence for sentence in capture.warnings)


def test_numbers_in_the_file_do_not_decide_how_much_memory_is_taken(tmp_path: Path) -> None:
    far = struct.pack("<8I", 4, 0xFFFFFFFF, 1, 0, 0, 0, 1, 0)
    events = events_block(0xFFFFFFFF, 0, [word("begin_wide", 0, 5), 0xFFFFFFFF, word("end", 0, 9)], 9)
    path = tmp_path / "wide.profkit"
    path.write_bytes(
        file_header() + block(2, struct.pack("<8I", 1, 1, 0, 0, 0, 0, 0, 1) + b"n".ljust(8, b"\0") + far) + events
    )

    capture = read(path)

    assert [capture.strings[name] for name in capture.ranges.name] == ["n"]
    assert capture.threads.index.tolist() == [0xFFFFFFFF]


def with_device() -> CaptureBuilder:
    """Ranges, and a GPU that worked for them."""
    builder = CaptureBuilder().process(1).thread("main").begin(10, "conv").end(300).begin(310, "pool").end(400)
    return builder.device(*every_entry(builder, builder.token(10))).device(device_entries.clock(1_000_500, 1_000_500))


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [FUZZER, *sorted(SOURCES.glob("captures/read/**/*.cpp")), SOURCES / "tracer/file/crc32c.cpp"]
    program = tmp_path_factory.mktemp("fuzzer") / "fuzz_reader"
    return build_program(program, sources, "address,undefined", ["-D_GLIBCXX_ASSERTIONS"])


@pytest.mark.full
@pytest.mark.timeout(900)
def test_100_000_mutated_files_neither_crash_nor_hang_the_reader_and_all_promises_hold(
    fuzzer: Path, tmp_path: Path
) -> None:
    corpus = [
        builder.write(tmp_path / f"{index}.profkit")
        for index, builder in enumerate([small(), eventful(), two_processes(), foreign_ends(), forked(), with_device()])
    ]
    # Far more than any of these small files needs.
    environment = {**os.environ, "ASAN_OPTIONS": "hard_rss_limit_mb=2000:max_allocation_size_mb=256:detect_leaks=1"}

    run = subprocess.run(
        [str(fuzzer), str(FILES), str(SEED), *corpus], capture_output=True, text=True, env=environment, check=False
    )

    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    # Most of them still hold something: the mutations reach the decoder, not only the checksum.
    read_count, with_ranges = (int(word) for word in run.stdout.split() if word.isdigit())
    assert read_count == FILES
    assert with_ranges > FILES // 2
