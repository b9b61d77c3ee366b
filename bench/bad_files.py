"""Files that lie about their size, are nested, endless or of wrong types: how long, how much memory, which sentence.

Run: python bench/bad_files.py > docs/measured/bad_files.md
"""

from __future__ import annotations

import _codecs
import gzip
import json
import os
import pickle
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measured_page import page_head

from profkit.data import cifar, mnist

MOST_S, MOST_MB = 2.0, 500.0
MIB = 1 << 20


@dataclass(frozen=True)
class BadFile:
    """What is wrong with it, what gives its maker, and words of the sentence; without words it is shown."""

    name: str
    maker: Callable[[], Callable[[Path], None]]
    words: str
    ending: str = ".profkit"


def files() -> list[BadFile]:
    """All of them."""
    kinds = (runs, traces, results, databases, programs, studies, data_sets, weights, candidates)
    return [bad for kind in kinds for bad in kind()]


def runs() -> list[BadFile]:
    """Runs of networks: zip archives that unpack to more than they may, and those whose insides are wrong."""
    good = b'{"schema": "profkit.run/1", "captures": 0'
    return [
        BadFile("run: 3 GB of zeros in 3 MB", lambda: _of(packed(b"\0", 3 << 30), 3 << 30), "it unpacks to"),
        BadFile("run: 3 GB that are said to be 100 bytes", lambda: _of(packed(b"\0", 3 << 30), 100), "CRC-32"),
        BadFile("run: 40 MB of spaces", lambda: _of(packed(b" ", 40 * MIB), 42 * MIB), "run.json has 44,040,192 bytes"),
        BadFile(
            "run: empty lists, 14 MB", lambda: _run_with(good + b', "network": ' + lists(14 * MIB) + b"}"), "lists and"
        ),
        BadFile("run: nested 100,000 deep", lambda: _run_with(b"[" * 100_000), "nested too deep"),
        BadFile("run: 60,000 entries", lambda: _many_entries, "it lists 60,000 entries"),
        BadFile("run: packed by bzip2", lambda: _of(b"BZh9", 100, 12), "packed in another way"),
        BadFile("run: its first 100 bytes", lambda: _cut_run, "it does not end like a zip archive"),
        BadFile(
            "run: a field of another type",
            lambda: _run_with(good + b', "threads": "many"}'),
            "run.json has threads 'many'",
        ),
        BadFile(
            "run: a number of 5,000 digits",
            lambda: _run_with(good + b', "threads": ' + b"9" * 5000 + b"}"),
            "is too long",
        ),
        BadFile(
            "run: half of a character", lambda: _run_with(good + b', "mode": "\\ud800", "x": 1}'), "unknown field 'x'"
        ),
    ]


def traces() -> list[BadFile]:
    """Of torch.profiler: JSON, plain and packed."""
    head, event = '{"traceEvents": [', '{"ph":"X","cat":"cpu_op","name":"%s","ts":1,"dur":2,"pid":1,"tid":1}'
    whole = f"{head}{event}]}}"
    spaces, keys = packed(b" ", 1 << 30), b',"a":1'
    return [
        BadFile("trace: a name of 3 MB", lambda: _text(whole % ("a" * 3 * MIB)), "", ".json"),
        BadFile("trace: a name of 20 MB", lambda: _text(whole % ("a" * 20 * MIB)), "is longer than", ".json"),
        BadFile("trace: half of a character", lambda: _text(whole % "a\\ud800\\u202e"), "", ".json"),
        BadFile("trace: control signs", lambda: _text(whole % "a\\u001b[31m\\u202e"), "", ".json"),
        BadFile("trace: 1 GB of spaces in 1 MB", lambda: _gzip(head.encode(), spaces), "spaces before", ".json.gz"),
        BadFile("trace: 1 GB of spaces", lambda: _sparse_text(head, 1 << 30), "cannot be read as a trace", ".json"),
        BadFile("trace: 3 GB in 3 MB", lambda: _gzip(b'["', packed(b"a", 3 << 30)), "longer than", ".json.gz"),
        BadFile(
            "trace: 300 million events in 1 MB",
            lambda: _gzip(b"[{}", packed(b",{}", 1 << 30)),
            "are not those of a trace",
            ".json.gz",
        ),
        BadFile(
            "trace: 100,000 streams of nothing", lambda: _bytes(gzip.compress(b"") * 100_000), "nothing in", ".json.gz"
        ),
        BadFile(
            "trace: empty lists, 30 MB",
            lambda: _bytes(b'{"a": ' + lists(30 * MIB) + b"}"),
            "lists and objects",
            ".json",
        ),
        BadFile(
            "trace: an event of empty lists", lambda: _bytes(b"[" + lists(7 * MIB) + b"]"), "lists and objects", ".json"
        ),
        BadFile("trace: nested 1,000,000 deep", lambda: _bytes(b"[" * 1_000_000), "nested too deep", ".json"),
        BadFile(
            "trace: a number of 1,000,000 digits", lambda: _bytes(b"[" + b"9" * 1_000_000 + b"]"), "cannot", ".json"
        ),
        BadFile("trace: 90 million keys", lambda: _gzip(b'{"b":1', packed(keys, 600 * MIB)), "too much", ".json.gz"),
        BadFile(
            "trace: 60 lists of lists",
            lambda: _bytes(b"{" + b'"a": ' + (lists(MIB // 2) + b', "a": ') * 59 + b"[]}"),
            "too much beside",
            ".json",
        ),
        BadFile(
            "trace: short events in 1 MB",
            lambda: _gzip(b'[{"ph":"M"}', packed(b',{"ph":"M"}', 160 * MIB)),
            "too short",
            ".json.gz",
        ),
        BadFile("trace: 12,000 threads", lambda: _text(_trace(map(_on_thread, range(12_000)))), "12,000", ".json"),
        BadFile("trace: one launch of 20,000", lambda: _text(_trace(_launches(20_000))), "", ".json"),
        BadFile("trace: kernels of long names", lambda: _text(_trace(_long_kernels(20, 600_000))), "", ".json"),
        BadFile("trace: cut in an event", lambda: _text(whole[:40]), "ends too early", ".json"),
        BadFile(
            "trace: bytes that are no text", lambda: _bytes(b"[" + bytes(range(128, 256)) * 10_000), "not JSON", ".json"
        ),
    ]


def results() -> list[BadFile]:
    """Of `--json`."""
    head = '{"schema": "profkit.result/1", "environment": {}, "peaks": {}, "interrupted": false, "cells": ['
    row = '{"spec": {"op": "conv2d"}, "threads": 1, "rows": [{"key": 5}]}'
    late = (
        '{"spec": {"op": "conv2d"}, "threads": 1, "baseline": null, "peaks": {}, "bound": "", "cache": "hot", "rows": '
        '[{"key": "conv2d/numpy/cpu", "status": "ok", "median_ns": 1, "samples_ns": [1], '
        '"sample_rounds": [1099511627776]}]}'
    )
    return [
        BadFile(
            "result: 1 GB of spaces in 1 MB", lambda: _gzip(head.encode(), packed(b" ", 1 << 30)), "spaces", ".json.gz"
        ),
        BadFile(
            "result: 3 GB in 3 MB", lambda: _gzip(f'{head}"'.encode(), packed(b"a", 3 << 30)), "longer than", ".json.gz"
        ),
        BadFile(
            "result: empty lists, 7 MB",
            lambda: _bytes(head.encode() + lists(7 * MIB) + b"]}"),
            "lists and objects",
            ".json",
        ),
        BadFile("result: nested 1,000,000 deep", lambda: _text(head + "[" * 1_000_000), "nested too deep", ".json"),
        BadFile(
            "result: a field of another type", lambda: _text(f"{head}{row}]}}"), "row 0 of cell 0 has key '5'", ".json"
        ),
        BadFile("result: a cell of 20,000 rows", lambda: _text(f"{head}{_cell_of(20_000)}]}}"), "20,000 rows", ".json"),
        BadFile(
            "result: 20,000 cells",
            lambda: _text(head + ", ".join([_cell_of(1)] * 20_000) + "]}"),
            "2,000 cells",
            ".json",
        ),
        BadFile("result: a round of 2^40", lambda: _text(f"{head}{late}]}}"), "rounds or threads below 0", ".json"),
        BadFile(
            "result: a reason of 12 MB", lambda: _text(f"{head}{_cell_of(1, 'x' * 12 * MIB)}]}}"), "reason has", ".json"
        ),
        BadFile("result: a newer one", lambda: _text('{"schema": "profkit.result/9"}'), "newer profkit", ".json"),
    ]


def _cell_of(rows: int, reason: str = "") -> str:
    listed = [
        {"key": f"conv2d/numpy/cpu/{number}", "status": "ok", "median_ns": 1.0 + number, "reason": reason}
        for number in range(rows)
    ]
    about: dict[str, object] = {"threads": 1, "baseline": None, "peaks": {}, "bound": "", "cache": "hot"}
    return json.dumps({"spec": {"op": "conv2d"}, **about, "rows": listed})


def databases() -> list[BadFile]:
    """Of Nsight Systems: SQLite."""
    view = ["create view NVTX_EVENTS as select zeroblob(900000000) as start"]
    table = "create table NVTX_EVENTS (start, end, eventType, globalTid, text, textId, domainId, endGlobalTid)"
    wrong = "insert into NVTX_EVENTS values ('a', x'00', 59, 1.5, 7, x'ff', 'b', null)"
    long = "insert into NVTX_EVENTS values (1, 2, 59, 3, cast(zeroblob(200000000) as text), null, null, null)"
    numbers = list(range(20_000))
    repeated = (
        table,
        "create table StringIds (id, value)",
        f"insert into StringIds values (1, '{'text, seq = 1' * 80_000}')",
        f"insert into NVTX_EVENTS select key, key + 1, 59, 3, null, 1, null, null from json_each('{numbers}')",
    )
    trigger = "create trigger t after insert on NVTX_EVENTS begin delete from NVTX_EVENTS; end"
    return [
        BadFile("nsys: a view in place of a table", lambda: _sqlite(*view), "its tables are missing", ".sqlite"),
        BadFile("nsys: other types in every column", lambda: _sqlite(table, wrong), "without NVTX ranges", ".sqlite"),
        BadFile("nsys: a text of 200 MB", lambda: _sqlite(table, long), "too big", ".sqlite"),
        BadFile("nsys: a text of 1 MB in 20,000 ranges", lambda: _sqlite(*repeated), "", ".sqlite"),
        BadFile("nsys: a trigger", lambda: _sqlite(table, trigger), "without NVTX ranges", ".sqlite"),
        BadFile("nsys: pages that hold each other", lambda: _circular_database, "pages hold each other", ".sqlite"),
        BadFile("nsys: being written", lambda: _written_database, "is being written", ".sqlite"),
        BadFile("nsys: its first page", lambda: _cut_database, "cannot be read", ".sqlite"),
    ]


def programs() -> list[BadFile]:
    """Captures of traced programs."""
    return [
        BadFile("program: 1 GB of zeros", lambda: _sparse_text("", 1 << 30), "is not a profkit capture"),
        BadFile("program: nothing", lambda: _bytes(b""), "is empty"),
        BadFile("program: its magic word", lambda: _bytes(b"PROFKIT\n"), "is cut off within its header"),
    ]


def studies() -> list[BadFile]:
    """TOML."""
    axes = "".join(f"{name} = [{', '.join(map(str, range(1, 900)))}]\n" for name in ("batch", "filters", "crop"))
    head = 'title = "t"\nnetwork = "cifar10"\nframeworks = ["numpy"]\n'
    return [
        BadFile("study: lists in lists", lambda: _text("title = " + "[" * 30_000), "nested too deep", ".toml"),
        BadFile("study: tables in tables", lambda: _text("a = " + "{a=" * 20_000), "nested too deep", ".toml"),
        BadFile(
            "study: a key of 30,000 names", lambda: _text(".".join("a" * 30_000) + " = 1"), "nested too deep", ".toml"
        ),
        BadFile("study: 700 million combinations", lambda: _text(f"{head}[axes]\n{axes}"), "combinations", ".toml"),
        BadFile("study: 1 GB", lambda: _sparse_text(head, 1 << 30), "it is not a study", ".toml"),
        BadFile(
            "study: a field of another type",
            lambda: _text(head.replace('"t"', "5") + "[variants]\na = {}"),
            "expected a text in quotes, got 5",
            ".toml",
        ),
    ]


def data_sets() -> list[BadFile]:
    """Of `--data`: tables and images."""
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 72)
    huge = header + b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999,)}".ljust(72)
    return [
        BadFile("table: 3 GB in 3 MB", lambda: _gzip(b"", packed(b"1", 3 << 30)), "unpacks to more than", ".csv.gz"),
        BadFile("table: 1 GB", lambda: _sparse_text("", 1 << 30), "has 1,073,741,824 bytes, more than", ".csv"),
        BadFile("table: a line of 8 MB", lambda: _text("1," * (4 * MIB - 1)), "its first line is", ".csv"),
        BadFile(
            "images: 3 GB of zeros in 3 MB",
            lambda: _bytes(archive([("jpeg.npy", 8, 0, 3 << 30, packed(b"\0", 3 << 30))])),
            "unpacks to",
            ".npz",
        ),
        BadFile(
            "images: an array of 100 GB in 80 bytes",
            lambda: _bytes(archive([("jpeg.npy", 0, zlib.crc32(huge), len(huge), huge)])),
            "jpeg.npy is uint8 [99999999999]",
            ".npz",
        ),
        BadFile("images: 60,000 entries", lambda: _many_entries, "it lists 60,000 entries", ".npz"),
        BadFile("images: a pickle that repeats a byte", lambda: _cifar(_repeated()), "1,536,000,000 numbers", ".cifar"),
        BadFile("images: a pickle of encodings", lambda: _cifar(_encoded()), "it has text in 'hex'", ".cifar"),
        BadFile("images: lists in lists, pickled", lambda: _cifar(b"(" * 2 * MIB), "is damaged", ".cifar"),
        BadFile("images: 3 GB in 3 MB, idx", lambda: _mnist(packed(b"\0", 3 << 30)), "unpacks to more than", ".mnist"),
    ]


def candidates() -> list[BadFile]:
    """Sources in Python: what is in them is looked for without running them."""
    return [
        BadFile("candidate: 2 MB", lambda: _text("x = 1\n" * MIB), "is not a source file", ".py"),
        BadFile("candidate: 170,000 statements", lambda: _text("x = 1\n" * 170_000), "no function", ".py"),
    ]


class _Made:
    """What a pickle calls when it is read."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.called = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.called


def _repeated() -> bytes:
    pixels = _Made(np.ndarray, (500_000, 3072), "u1", b"0", 0, (0, 0))
    return pickle.dumps({b"data": pixels, b"labels": [1] * 500_000})


def _encoded() -> bytes:
    text: object = "a"
    for _ in range(40):
        text = _Made(_codecs.encode, text, "hex")
    return pickle.dumps({b"data": text, b"labels": [1]})


def _cifar(content: bytes) -> Callable[[Path], None]:
    """A folder of six equal files."""

    def make(path: Path) -> None:
        path.mkdir()
        for name in cifar.NAMES:
            _write(path / name, content)

    return make


def _mnist(stream: bytes) -> Callable[[Path], None]:
    """A folder of four equal files, of this raw deflate stream."""

    def make(path: Path) -> None:
        path.mkdir()
        for name in mnist.NAMES[::2]:
            _gzip(b"", stream)(path / name)

    return make


def weights() -> list[BadFile]:
    """Of `--weights`: safetensors."""

    def of(header: bytes, length: int | None = None) -> Callable[[], Callable[[Path], None]]:
        return lambda: _bytes(struct.pack("<Q", len(header) if length is None else length) + header)

    many = b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % number for number in range(60_000))
    wrong = "is not a file of weights"
    return [
        BadFile("weights: a header of 2^60 bytes", of(b"{}", 1 << 60), wrong, ".safetensors"),
        BadFile("weights: empty lists, 4 MB", of(b'{"a":' + lists(4 * MIB - 10) + b"}"), wrong, ".safetensors"),
        BadFile("weights: nested 1,000,000 deep", of(b"[" * 1_000_000), wrong, ".safetensors"),
        BadFile("weights: 60,000 arrays", of(b"{" + many + b"}"), "lacks hidden1.w", ".safetensors"),
    ]


def _event(category: str, name: str, ts: int = 1, tid: int = 1, **args: int) -> dict[str, Any]:
    place = {"ts": ts, "dur": 2, "pid": 1, "tid": tid}
    return {"ph": "X", "cat": category, "name": name, **place, "args": args}


def _on_thread(number: int) -> dict[str, Any]:
    return _event("cpu_op", "a", tid=number)


def _launches(count: int) -> Iterator[dict[str, Any]]:
    """Calls and kernels that all have one correlation."""
    for number in range(count):
        yield _event("cuda_runtime", "cudaLaunchKernel", 10 * number, correlation=1)
        yield _event("kernel", "k", 10 * number + 5, correlation=1, device=0, stream=7)


def _long_kernels(count: int, length: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield _event("kernel", "void " + "a<" * (length // 2) + str(number), 10 * number, device=0, stream=7)


def _trace(events: Iterable[dict[str, Any]]) -> str:
    return json.dumps({"traceEvents": list(events)})


def lists(size: int) -> bytes:
    """JSON that takes most memory for its size."""
    return b"[" + b"[[]]," * (size // 5) + b"[]]"


def packed(sign: bytes, size: int) -> bytes:
    """The sign, repeated to this size, as a raw deflate stream: one block again and again, which is made at once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = sign * (3 * MIB // len(sign))
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return first * (size // len(block) + 1) + packer.flush()


def deflated(data: bytes) -> bytes:
    """As a raw deflate stream."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def archive(entries: Sequence[tuple[str, int, int, int, bytes]]) -> bytes:
    """A zip archive of entries: name, method, checksum, size that it claims, packed bytes."""
    body, directory = bytearray(), bytearray()
    for name, method, checksum, size, data in entries:
        about = struct.pack("<4H3L2H", 0, method, 0, 33, checksum, len(data), size, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<2H", 20, 20) + about + struct.pack("<3H2L", 0, 0, 0, 0, len(body))
        directory += name.encode()
        body += b"PK\3\4" + struct.pack("<H", 20) + about + name.encode() + data
    count = min(len(entries), 0xFFFF)
    end = b"PK\5\6" + struct.pack("<4H2LH", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + end)


def _of(data: bytes, size: int, method: int = 8) -> Callable[[Path], None]:
    """A run whose run.json is this packed data."""
    return lambda path: _write(path, archive([("run.json", method, 0, size, data)]))


def _run_with(about: bytes) -> Callable[[Path], None]:
    return lambda path: _write(path, archive([("run.json", 0, zlib.crc32(about), len(about), about)]))


def _many_entries(path: Path) -> None:
    _write(path, archive([(f"{number:060}", 0, 0, 0, b"") for number in range(60_000)]))


def _cut_run(path: Path) -> None:
    _write(path, archive([("run.json", 0, 0, 1000, b" " * 1000)])[:100])


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _bytes(data: bytes) -> Callable[[Path], None]:
    return lambda path: _write(path, data)


def _text(text: str) -> Callable[[Path], None]:
    return _bytes(text.encode())


def _gzip(before: bytes, stream: bytes) -> Callable[[Path], None]:
    """A gzip file of these bytes and a raw deflate stream; its checksum is wrong, and is never reached."""
    head = zlib.compressobj(1, zlib.DEFLATED, -15)
    begin = head.compress(before) + head.flush(zlib.Z_FULL_FLUSH)
    return _bytes(b"\x1f\x8b\x08" + b"\0" * 6 + b"\xff" + begin + stream + b"\0" * 8)


def _sparse_text(before: str, size: int) -> Callable[[Path], None]:
    """A text and then this many zeros, which take no space on the disk."""

    def make(path: Path) -> None:
        path.write_text(before)
        os.truncate(path, size)

    return make


def _sqlite(*statements: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute("create table META_DATA_EXPORT (name, value)") if "view" not in statements[0] else None
            for statement in statements:
                database.execute(statement)
        database.close()

    return make


def _circular_database(path: Path) -> None:
    """A table whose inner pages each point 500 times to the next: 10 thousand million rows in a dozen pages."""
    with sqlite3.connect(path) as database:
        database.execute("pragma page_size = 4096")
        database.execute("create table NVTX_EVENTS (start, end, eventType, globalTid, text)")
        database.executemany("insert into NVTX_EVENTS values (?, ?, 59, 3, 'a')", [(n, n) for n in range(2000)])
    database.close()
    data = bytearray(path.read_bytes())
    leaf = next(page for page in range(3, len(data) // 4096) if data[(page - 1) * 4096] == 13)
    first, second = [page for page in range(3, len(data) // 4096) if page != leaf][:2]
    for page, target in ((2, first), (first, second), (second, leaf)):
        data[(page - 1) * 4096 : page * 4096] = _inner_page(target)
    path.write_bytes(data)


def _inner_page(target: int, cells: int = 500) -> bytes:
    """A page of a table's tree, all of whose cells (a page and the last row in it) lead to one page."""
    places = [4096 - 5 * (number + 1) for number in range(cells)]
    head = struct.pack(">BHHHBL", 5, 0, cells, places[-1], 0, target) + struct.pack(f">{cells}H", *places)
    return head.ljust(places[-1], b"\0") + (struct.pack(">L", target) + b"\1") * cells


def _written_database(path: Path) -> None:
    _sqlite("create table NVTX_EVENTS (start, end)")(path)
    Path(f"{path}-wal").write_bytes(b"x")


def _cut_database(path: Path) -> None:
    _sqlite("create table NVTX_EVENTS (start, end)")(path)
    os.truncate(path, 4096)


WATCH = """
import json, os, sys, time
begin = time.monotonic()
process = os.posix_spawn(sys.executable, [sys.executable, "-m", "profkit", *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(process, 0)
seconds = time.monotonic() - begin
found = {"seconds": seconds, "mb": usage.ru_maxrss * 1024 / 1e6, "code": os.waitstatus_to_exitcode(status)}
open("found.json", "w").write(json.dumps(found))
"""
"""A process starts with the peak memory of the one that made it: this one is small."""


READERS = {
    ".toml": ["study", "--dry-run"],
    ".csv": ["network", "mlp", "--data"],
    ".csv.gz": ["network", "mlp", "--data"],
    ".npz": ["network", "lenet", "--data"],
    ".cifar": ["network", "cifar10", "--data"],
    ".mnist": ["network", "dnn_w20", "--data"],
    ".py": ["matmul", "--candidate"],
    ".safetensors": ["network", "mlp", "--weights"],
}
"""What reads a file, by its ending; others are shown by `report`."""


def measure(bad: BadFile, folder: Path) -> dict[str, Any]:
    """The command that reads the file: seconds, peak memory, exit code, what it said."""
    path = folder / f"file{bad.ending}"
    bad.maker()(path)
    words = READERS.get(bad.ending, ["report"])
    watched = [sys.executable, "-I", "-S", "-c", WATCH, *words, str(path)]
    done = subprocess.run(watched, capture_output=True, text=True, cwd=folder, check=True)
    sentence = " ".join(done.stderr.split()).replace(str(path), path.name).partition(": ")[2]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return {**found, "sentence": sentence, "bytes": path.stat().st_size}


def main() -> int:
    """Print the table; exit 1 when a file takes too long, too much, or is not told in one sentence."""
    print(page_head("Bad files", "python bench/bad_files.py"))
    print(f"Goal: each is refused in one sentence within {MOST_S:g} s and {MOST_MB:g} MB, or shown without harm.")
    print("Times include the start of Python and of profkit. Load when it began: ", end="")
    print(f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    print("| file | bytes | s | MB | exit | what it says |\n|---|--:|--:|--:|--:|---|")
    wrong = []
    for bad in files():
        folder = Path(tempfile.mkdtemp())
        try:
            found = measure(bad, folder)
        finally:
            shutil.rmtree(folder)
        is_told = bad.words in found["sentence"] and (found["code"] in (1, 2) if bad.words else found["code"] == 0)
        if found["seconds"] > MOST_S or found["mb"] > MOST_MB or not is_told:
            wrong.append(bad.name)
        sentence = found["sentence"].replace("|", "\\|")
        numbers = f"{found['bytes']:,} | {found['seconds']:.2f} | {found['mb']:.0f} | {found['code']}"
        print(f"| {bad.name} | {numbers} | {sentence or 'shown'} |", flush=True)
    print(f"\nMissed: {', '.join(wrong)}." if wrong else "\nAll keep to it.")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
