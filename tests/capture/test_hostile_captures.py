"""Files with right checksums and wrong content: every command answers, or refuses in a sentence."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from profkit import export, query, report
from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall
from tests.capture.builders import CLOCK, OVERHEAD, PROCESS, CaptureBuilder, block, file_header

PROCESS_ID = 0xABC000
DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "doors is a number": {"doors": 5},
    "doors is null": {"doors": None},
    "doors is an object": {"doors": {"allocations": 1}},
    "doors holds lists": {"doors": [["allocations"], None, 3]},
    "pid beyond every integer": {"pid": 10**30, "parent_pid": -(10**30)},
    "pid is true": {"pid": True, "parent_pid": "7"},
    "pid is negative": {"pid": -1, "parent_pid": 2**31},
    "command with half a character": {"command": ["\ud800", "a\udfffb"], "clock": "\ud800", "\ud800": "\ud800"},
    "command is a text": {"command": "python"},
    "command holds numbers": {"command": [1, None, {"a": []}, float("nan")]},
    "command is null": {"command": None, "clock": None, "profkit": None},
    "profkit is a list": {"profkit": [1, "\ud83d"]},
}


def plain(**description: Any) -> CaptureBuilder:
    builder = CaptureBuilder().process(description.pop("pid", 1000), **description)
    builder.thread("main").begin(10, "a").alloc(12, 0x1000, 100)
    return builder.end(20).begin(21, "b").free(22, 0x1000).end(30)


def run_commands(path: Path) -> None:
    """Report, export and query, each in all forms that read other columns."""
    folder = path.parent
    assert report.main([str(path), "--columns", "all", "--json", str(folder / "r.json")]) == 0
    json.loads((folder / "r.json").read_text(encoding="utf-8"))
    for by in ("path", "thread"):
        assert report.main([str(path), "--by", by, "--subtract-overhead"]) == 0
    files = {"chrome": "c.json", "perfetto": "p.pftrace", "folded": "f.folded", "folded-bytes": "b.folded"}
    words = [word for flag, name in files.items() for word in (f"--{flag}", str(folder / name))]
    assert export.main([str(path), *words, "--flows"]) == 0
    json.loads((folder / "c.json").read_text(encoding="utf-8"))
    pytest.importorskip("duckdb", reason="DuckDB is not installed: no SQL")
    for table in ("processes", "allocations", "capture", "threads", "ranges"):
        assert query.main([str(path), f"select * from {table}"]) == 0


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.full if place % 3 else ()) for place, case in enumerate(DESCRIPTIONS)]
)
def test_a_process_may_say_anything_of_itself(case: str, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    plain(**DESCRIPTIONS[case]).write(path)

    run_commands(path)


@pytest.mark.parametrize(
    "text", [b"[]", b"7", b'"text"', b"{", b'{"a":' * 60 + b"1" + b"}" * 60, b'{"pid": 1e999, "x": NaN}', b"[" * 5000]
)
def test_a_description_of_any_form_is_read(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    written = block(PROCESS, text, PROCESS_ID)
    path.write_bytes(file_header() + b"".join(replaced(plain(), PROCESS, written)))

    run_commands(path)


def test_a_process_without_a_number_is_not_found_by_one(tmp_path: Path) -> None:
    path = plain(pid=10**30).write(tmp_path / "made.profkit")

    codes = [report.main([path, "--process", number]) for number in ("5", str(10**30))]

    assert codes == [2, 2]
    assert read(path).processes[0].pid == 0


@pytest.mark.parametrize("call", [0, 7, 11, 200, 255])
def test_a_function_of_no_known_number_is_called_unknown(call: int, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    builder = CaptureBuilder().begin(10, "a").alloc(12, 0x1000, 100, call).end(20)  # type: ignore[arg-type]
    builder.begin(21, "b").free(22, 0x1000).end(30).write(path)

    run_commands(path)

    events = json.loads((tmp_path / "c.json").read_text())["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "memory" and event["ph"] == "i"]
    assert names == ["free" if call == 7 else "unknown", "release"]


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1e300, 1e300])
def test_an_impossible_cost_of_recording_is_not_believed(cost: float, tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    entry = block(OVERHEAD, struct.pack("<3d", cost, cost, cost), PROCESS_ID)
    path.write_bytes(file_header() + b"".join(replaced(plain(), OVERHEAD, entry)))

    run_commands(path)

    process = read(path).processes[0]
    assert (process.empty_range_ns, process.clock_read_ns, process.cross_core_skew_ns) == (0, 0, -1)


@pytest.mark.parametrize(
    "points",
    [
        [(0, -(2**63), 0), (2**64 - 1, 2**63 - 1, 0)],
        [(1_000_000, 2**63 - 1, 0), (1_000_001, -(2**63), 0)],
        [(0, 0, 0), (1, 2**62, 0)],
        [(1_000_000, 5, -(2**63)), (2_000_000, 6, 2**63 - 1)],
    ],
)
def test_a_clock_of_any_rate_is_survived(points: list[tuple[int, int, int]], tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    clock = block(CLOCK, b"".join(struct.pack("<Qqq", *point) for point in points), PROCESS_ID)
    path.write_bytes(file_header() + b"".join(replaced(plain(), CLOCK, clock)))

    run_commands(path)


def test_sizes_and_counts_of_any_number_are_survived(tmp_path: Path) -> None:
    path = tmp_path / "made.profkit"
    most = 2**64 - 1
    builder = CaptureBuilder(counters=[most] * 8).thread("main").begin(10, "a").alloc(11, 8, most).alloc(12, most, most)
    builder.alloc(13, 4096, most, AllocationCall.MMAP).unmap(14, 8192, 4096).end(20).begin(21, "b").free(22, 8).free(
        23, most
    ).end(30)
    builder.sample(24, most).thread_ends(most, most, most).write(path)

    run_commands(path)


def replaced(builder: CaptureBuilder, block_type: int, by: bytes) -> list[bytes]:
    """The builder's blocks with another one of this type."""
    return [by if made[8:12] == struct.pack("<I", block_type) else made for made in builder.blocks()]
