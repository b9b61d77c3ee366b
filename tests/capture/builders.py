"""Capture files made by hand, an event per line: times in ns go in, the bytes of a capture file come out."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall, Capture, PayloadType, Source
from tests.capture.tables import payload_bits

CAPTURE_ID = 0x1122334455667788
HEADER_BYTES = 4096
TICK_MASK = (1 << 44) - 1
CREATED_UNIX_NS = 1_700_000_000_000_000_000

PROCESS, DEFINITIONS, THREAD, EVENTS, CLOCK, SAMPLES, OVERHEAD, END = range(1, 9)
DEVICE = 16
FIRST_MONOTONIC_NS = 1_000_000  # of the builder's captures
EVENT = {
    "begin": 1,
    "begin_wide": 2,
    "end": 3,
    "mark": 4,
    "span_begin": 5,
    "span_end": 6,
    "payload": 7,
    "allocate": 8,
    "release": 9,
    "unmap": 10,
    "usage": 11,
    "time": 12,
    "snapshot": 13,
    "dropped": 14,
    "end_elsewhere": 15,
}


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def file_header(
    *, version: int = 1, capture_id: int = CAPTURE_ID, magic: bytes = b"PROFKIT\n", counters: Iterable[int] = ()
) -> bytes:
    """The header page; `counters` in the order of FileCounters."""
    start = struct.pack("<8sIIQq28x", magic, version, HEADER_BYTES, capture_id, CREATED_UNIX_NS)
    page = bytearray((start + struct.pack("<I", crc32c(start))).ljust(HEADER_BYTES, b"\0"))
    for index, value in enumerate(counters):
        struct.pack_into("<Q", page, 256 + 8 * index, value)
    return bytes(page)


def block(block_type: int, payload: bytes, process_id: int = 1, capture_id: int = CAPTURE_ID) -> bytes:
    """A block with its checksum; the payload is padded to 8 bytes."""
    payload += bytes(-len(payload) % 8)
    rest = struct.pack("<IIQQ", block_type, len(payload), capture_id, process_id) + payload
    return b"PBK1" + struct.pack("<I", crc32c(rest)) + rest


def read_blocks(blocks: Iterable[bytes], folder: Path) -> Capture:
    """What the reader makes of a file of these blocks."""
    (folder / "made.profkit").write_bytes(file_header() + b"".join(blocks))
    return read(folder / "made.profkit")


def blocks_of_type(blocks: Sequence[bytes], block_type: int) -> list[int]:
    """The places of the blocks of this type."""
    return [place for place, made in enumerate(blocks) if made[8:12] == struct.pack("<I", block_type)]


def rows(capture: Capture) -> list[tuple[str, int, int, int]]:
    """Name, start, end and parent of each range."""
    r = capture.ranges
    names = [capture.text(number) for number in r.name.tolist()]
    return list(zip(names, r.start_ns.tolist(), r.end_ns.tolist(), r.parent.tolist()))


def memory(capture: Capture) -> list[tuple[int, int, int, int]]:
    """Address, bytes, time and time of release (-1: none) of each allocation."""
    a = capture.allocations
    return list(zip(a.address.tolist(), a.bytes.tolist(), a.time_ns.tolist(), a.free_time_ns.tolist()))


def word(kind: str | int, argument: int = 0, ticks: int = 0) -> int:
    """The first word of an event."""
    return (EVENT[kind] if isinstance(kind, str) else kind) << 60 | argument << 44 | ticks & TICK_MASK


def words_bytes(words: Iterable[int]) -> bytes:
    listed = list(words)
    return struct.pack(f"<{len(listed)}Q", *listed)


def events_block(thread: int, first_word: int, words: list[int], written_ticks: int, process_id: int = 1) -> bytes:
    header = struct.pack("<IIQQ", thread, len(words), first_word, written_ticks)
    return block(EVENTS, header + words_bytes(words), process_id)


@dataclass
class _Thread:
    name: str
    index: int
    words: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)  # where one block ends and the next begins
    stack: list[tuple[int, int]] = field(default_factory=list)  # label, begin ticks
    last_ticks: int | None = None
    ticks_at: dict[int, int] = field(default_factory=dict)  # full clock of the event at this word
    is_ended: bool = False
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass
class _Process:
    pid: int
    description: dict[str, Any]
    definitions: list[bytes] = field(default_factory=list)
    ids: dict[tuple[Any, ...], int] = field(default_factory=dict)
    threads: list[_Thread] = field(default_factory=list)
    samples: list[tuple[int, int]] = field(default_factory=list)
    device: list[bytes] = field(default_factory=list)  # payloads of blocks
    has_ended: bool = True
    last_ticks: int = 0
    process_id: int = 0


class CaptureBuilder:
    """Writes a capture: `CaptureBuilder().thread("main").begin(10, "a").end(20).build()`.

    Times are ns from the start of the capture. `ticks_per_ns` and `first_tick` set the clock that the file uses:
    with the defaults what is read back is exactly what was written.
    """

    def __init__(self, *, ticks_per_ns: float = 1.0, first_tick: int = 1_000_000, counters: Iterable[int] = ()) -> None:
        self._ticks_per_ns = ticks_per_ns
        self._first_tick = first_tick
        self._counters = list(counters)
        self._processes: list[_Process] = []
        self._now: _Thread | None = None

    # --- Where the next events go

    def process(self, pid: int = 1000, *, has_ended: bool = True, **description: Any) -> CaptureBuilder:
        """A further process; what follows belongs to it."""
        made = _Process(pid, {"pid": pid, "parent_pid": 1, "command": ["python", "program.py"], "clock": "tsc"})
        made.description.update(description)
        made.has_ended = has_ended
        made.process_id = 0xABC000 + len(self._processes)
        self._processes.append(made)
        self._now = None
        return self

    def thread(self, name: str = "main") -> CaptureBuilder:
        """The thread of this name, made when it is new; what follows happens on it."""
        threads = self._process.threads
        found = [thread for thread in threads if thread.name == name]
        if not found:
            found = [_Thread(name, len(threads))]
            threads += found
        self._now = found[0]
        return self

    def cut(self) -> CaptureBuilder:
        """The next event of this thread begins a new chunk: a block of its own with a snapshot."""
        self._thread.cuts.append(len(self._thread.words))
        stack = self._thread.stack
        ticks = self._thread.last_ticks or self._first_tick
        self._thread.ticks_at[len(self._thread.words)] = ticks
        return self.words(word("snapshot", len(stack), ticks), *(part for entry in stack for part in entry))

    def inherit(self, t: int, *names: str) -> CaptureBuilder:
        """The thread starts as a fork child does, whose parent has these ranges open."""
        stack = [(self.label(name), self.ticks(t) + place) for place, name in enumerate(names)]
        self._thread.stack += stack
        self._thread.ticks_at[0] = self.ticks(t)
        return self.words(word("snapshot", len(stack), self.ticks(t)), *(part for entry in stack for part in entry))

    def part(self) -> CaptureBuilder:
        """The next event of this thread begins a new block of the same chunk."""
        self._thread.cuts.append(len(self._thread.words))
        return self

    def thread_ends(self, small: int = 0, small_bytes: int = 0, unbalanced: int = 0) -> CaptureBuilder:
        """The thread is over; with what was only counted in it."""
        self._thread.is_ended = True
        self._thread.counts = (small, small_bytes, unbalanced)
        return self

    # --- Events

    def begin(
        self,
        t: int,
        name: str,
        *,
        domain: str | None = None,
        category: str | None = None,
        colour: int = 0,
        payload: int | float | None = None,
        source: Source = Source.NVTX,
        wide: bool = False,
    ) -> CaptureBuilder:
        label = self.label(name, domain, category, colour, source)
        ticks = self.ticks(t)
        self._thread.stack.append((label, ticks))
        if wide:
            return self._event("begin_wide", 0, ticks, label).payload(payload)
        return self._event("begin", label, ticks).payload(payload)

    def end(self, t: int, index: int | None = None) -> CaptureBuilder:
        """The innermost range closes, or the one at `index` of the stack."""
        index = len(self._thread.stack) - 1 if index is None else index
        if 0 <= index < len(self._thread.stack):
            del self._thread.stack[index]
        return self._event("end", index, self.ticks(t))

    def mark(self, t: int, name: str, *, payload: int | float | None = None, **label: Any) -> CaptureBuilder:
        return self._event("mark", 0, self.ticks(t), self.label(name, **label)).payload(payload)

    def span_begin(
        self, t: int, span: int, name: str, *, payload: int | float | None = None, **label: Any
    ) -> CaptureBuilder:
        """A range that is in no stack."""
        return self._event("span_begin", 0, self.ticks(t), span, self.label(name, **label)).payload(payload)

    def span_end(self, t: int, span: int) -> CaptureBuilder:
        """The end of that range, on any thread."""
        return self._event("span_end", 0, self.ticks(t), span)

    def payload(self, value: int | float | None, payload_type: PayloadType | None = None) -> CaptureBuilder:
        """The value of the event just written."""
        kind, bits = payload_bits(value)
        return self if value is None else self.words(word("payload", payload_type or kind), bits)

    def alloc(self, t: int, address: int, size: int, call: AllocationCall = AllocationCall.MALLOC) -> CaptureBuilder:
        return self._event("allocate", call, self.ticks(t), address, size)

    def free(self, t: int, address: int, call: AllocationCall = AllocationCall.FREE) -> CaptureBuilder:
        return self._event("release", call, self.ticks(t), address)

    def unmap(self, t: int, address: int, size: int) -> CaptureBuilder:
        return self._event("unmap", 0, self.ticks(t), address, size)

    def usage(self, is_end: bool, minor: int, major: int, voluntary: int, involuntary: int) -> CaptureBuilder:
        """The thread's counts: after a begin, or before an end."""
        return self.words(word("usage", int(is_end)), minor | major << 32, voluntary | involuntary << 32)

    def time(self, t: int) -> CaptureBuilder:
        """The full clock, before an event that comes 2^43 ticks or more after the last."""
        return self._event("time", 0, self.ticks(t), self.ticks(t))

    def dropped(self, t: int, count: int) -> CaptureBuilder:
        return self._event("dropped", 0, self.ticks(t), count)

    def end_elsewhere(self, t: int, opener: int, begin_t: int) -> CaptureBuilder:
        """This thread closes the range that the thread with index `opener` began at `begin_t`."""
        return self._event("end_elsewhere", 0, self.ticks(t), opener, self.ticks(begin_t) & TICK_MASK)

    def words(self, *raw: int) -> CaptureBuilder:
        self._thread.words += raw
        return self

    def sample(self, t: int, resident_bytes: int) -> CaptureBuilder:
        self._process.samples.append((self.ticks(t), resident_bytes))
        return self

    def device(self, *entries: bytes) -> CaptureBuilder:
        """A block about what a GPU did; device_entries.py makes the entries."""
        self._process.device.append(b"".join(entries))
        return self

    def string(self, text: str) -> int:
        """Id of a name, as entries about a GPU refer to it."""
        return self._string(text)

    def token(self, t: int) -> int:
        """What CUPTI is told of the range that began on this thread at this time."""
        return self._thread.index << 44 | self.ticks(t) & TICK_MASK

    # --- The file

    def ticks(self, t: int) -> int:
        """The clock's reading at a time."""
        ticks = self._first_tick + round(t * self._ticks_per_ns)
        self._process.last_ticks = max(self._process.last_ticks, ticks)
        return ticks

    def label(
        self,
        name: str,
        domain: str | None = None,
        category: str | None = None,
        colour: int = 0,
        source: Source = Source.NVTX,
    ) -> int:
        """Id of a label, with all definitions it needs."""
        domain_id = 0 if domain is None else self._define("domain", self._string(domain), source)
        category_id = 0 if category is None else self._define("category", self._string(category), domain_id, 7)
        return self._define("label", self._string(name), domain_id, category_id, colour, source)

    def blocks(self) -> list[bytes]:
        """The blocks, in the order in which a recorder writes them."""
        made: list[bytes] = []
        for process in self._processes:
            made += self._process_blocks(process)
        return made

    def build(self) -> bytes:
        return file_header(counters=self._counters) + b"".join(self.blocks())

    def write(self, path: Path | str) -> str:
        """The whole file, written; gives the path."""
        Path(path).write_bytes(self.build())
        return str(path)

    def read(self, folder: Path) -> Capture:
        """What the reader makes of it."""
        return read(self.write(folder / "made.profkit"))

    def read_without(self, block_type: int, number: int, folder: Path) -> Capture:
        """What is read of a file that has lost the block of this type and number."""
        blocks = self.blocks()
        lost = blocks_of_type(blocks, block_type)[number]
        return read_blocks(blocks[:lost] + blocks[lost + 1 :], folder)

    @property
    def _process(self) -> _Process:
        if not self._processes:
            self.process()
        return self._processes[-1]

    @property
    def _thread(self) -> _Thread:
        if self._now is None:
            self.thread()
        assert self._now is not None
        return self._now

    def _event(self, kind: str, argument: int, ticks: int, *more: int) -> CaptureBuilder:
        thread = self._thread
        if not thread.words:
            self.words(word("snapshot", 0, ticks))
        thread.last_ticks = ticks
        thread.ticks_at[len(thread.words)] = ticks
        return self.words(word(kind, argument, ticks), *more)

    def _string(self, text: str) -> int:
        return self._define("string", text)

    def _define(self, kind: str, *values: Any) -> int:
        process = self._process
        key = (kind, *values)
        if key not in process.ids:
            process.ids[key] = 1 + sum(known[0] == kind for known in process.ids)
            number = ["string", "domain", "category", "label"].index(kind) + 1
            text = values[0].encode() if kind == "string" else b""
            fields = [0] * 5 if kind == "string" else [*values, 0, 0, 0, 0, 0][:5]
            entry = struct.pack("<8I", number, process.ids[key], *fields, len(text))
            process.definitions.append(entry + text + bytes(-len(text) % 8))
        return process.ids[key]

    def _process_blocks(self, process: _Process) -> list[bytes]:
        pid = process.process_id
        last = max(process.last_ticks, self._first_tick)
        nanoseconds = round((last - self._first_tick) / self._ticks_per_ns)
        sync = [(self._first_tick, FIRST_MONOTONIC_NS, 20)]
        if nanoseconds:
            sync.append((last, FIRST_MONOTONIC_NS + nanoseconds, 20))
        made = [
            block(PROCESS, json.dumps(process.description).encode(), pid),
            block(OVERHEAD, struct.pack("<3d", 30.0, 10.0, -1.0), pid),
            block(CLOCK, b"".join(struct.pack("<Qqq", *entry) for entry in sync), pid),
        ]
        made += [block(DEFINITIONS, entry, pid) for entry in _gathered(process.definitions)]
        made += [block(THREAD, _thread_entry(thread), pid) for thread in process.threads]
        for thread in process.threads:
            made += _event_blocks(thread, pid)
        made += [block(DEVICE, payload, pid) for payload in process.device]
        if process.samples:
            made.append(block(SAMPLES, b"".join(struct.pack("<QQ", *sample) for sample in process.samples), pid))
        if process.has_ended:
            made.append(block(END, struct.pack("<Q", last), pid))
        return made


def _gathered(entries: list[bytes]) -> Iterable[bytes]:
    """Definitions in blocks of about 64 KiB."""
    gathered = b""
    for entry in entries:
        gathered += entry
        if len(gathered) > 1 << 16:
            yield gathered
            gathered = b""
    if gathered:
        yield gathered


def _thread_entry(thread: _Thread) -> bytes:
    return struct.pack(
        "<IIQQQQ32s", thread.index, thread.is_ended, 5000 + thread.index, *thread.counts, thread.name.encode()[:31]
    )


def _event_blocks(thread: _Thread, process_id: int) -> list[bytes]:
    made = []
    bounds = sorted({0, *thread.cuts, len(thread.words)})
    for start, stop in pairwise(bounds):
        # A payload holds at most 1 MiB; parts of a long run are blocks of one chunk.
        for first, last in _whole_events(thread.words, start, stop):
            # Written as soon as its first event with a time was there: within 2^43 ticks of it, as must be.
            written = next((thread.ticks_at[at] for at in range(first, last) if at in thread.ticks_at), 0)
            made.append(events_block(thread.index, first, thread.words[first:last], written, process_id))
    return made


def _whole_events(words: list[int], start: int, stop: int, limit: int = 100_000) -> list[tuple[int, int]]:
    """Pieces of at most about `limit` words that end between events."""
    sizes = {2: 2, 4: 2, 5: 3, 6: 2, 7: 2, 8: 3, 9: 2, 10: 3, 11: 3, 12: 2, 14: 2, 15: 3}
    pieces = []
    at = first = start
    while at < stop:
        kind = words[at] >> 60
        at += 1 + 2 * (words[at] >> 44 & 0xFFFF) if kind == EVENT["snapshot"] else sizes.get(kind, 1)
        if at - first >= limit:
            pieces.append((first, min(at, stop)))
            first = at
    if first < stop:
        pieces.append((first, stop))
    return pieces
