"""docs/capture-format.md: the reader printed there reads captures, and its tables name what the headers define."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.capture.reading import read
from tests.capture.builders import CaptureBuilder
from tests.support.places import DOCS, SOURCES

DOCUMENT = DOCS / "capture-format.md"
HEADERS = [SOURCES / "tracer" / "file" / name for name in ("format.h", "device_format.h")]


def test_the_small_reader_finds_the_same_ranges_as_profkit(tmp_path: Path) -> None:
    if not DOCUMENT.exists():
        pytest.skip("the documents are not beside the tests")
    example = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    (tmp_path / "example.py").write_text(example)
    builder = CaptureBuilder(ticks_per_ns=2.0).process(10).thread("main")
    builder.begin(5, "outer", domain="d", payload=1).begin(7, "inner", wide=True).usage(False, 1, 2, 3, 4).cut()
    builder.mark(8, "m").alloc(9, 0x1000, 5).part().end(11).end(20).thread("two").begin(6, "crossed").begin(8, "late")
    builder.end(9, index=0).end(12).process(20).begin(30, "other").time(1 << 50).end((1 << 50) + 1)
    builder.process(30).inherit(40, "of the parent").begin(41, "of the child").end(43).end(44)
    path = builder.write(tmp_path / "example.profkit")

    command = [sys.executable, str(tmp_path / "example.py"), path]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")

    capture = read(path)
    r, t = capture.ranges, capture.threads
    origin = 1_000_000  # of the builder's CLOCK_MONOTONIC
    expected = [
        f"{capture.processes[t.process[r.thread[row]]].pid} {t.index[r.thread[row]]} {capture.strings[r.name[row]]}"
        f" {origin + r.start_ns[row]} {origin + r.end_ns[row]}"
        for row in range(len(r))
        if r.kind[row] != 2
    ]
    assert len(expected) == 6
    assert sorted(filter(None, printed)) == sorted(expected)


@pytest.mark.parametrize("enumeration", ["BlockType", "EventKind", "DeviceEntryKind"])
def test_every_kind_of_the_header_is_in_the_document(enumeration: str) -> None:
    if not DOCUMENT.exists() or not HEADERS[0].exists():
        pytest.skip("the documents and sources are not beside the tests")
    text = "".join(header.read_text() for header in HEADERS)
    body = re.search(rf"enum class {enumeration} : uint32_t \{{(.*?)\}};", text, re.DOTALL)
    assert body is not None
    kinds = re.findall(r"^\s*(\w+)\s*=\s*(\d+)", re.sub(r"//[^\n]*", "", body.group(1)), re.MULTILINE)

    missing = [kind for kind in kinds if f"| {kind[1]} | {kind[0]} |" not in DOCUMENT.read_text()]

    assert len(kinds) >= 8
    assert not missing
