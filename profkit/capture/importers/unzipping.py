"""Bytes of a file that may be packed by gzip: a path in, a stream out that gives all it can."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from profkit.capture.checked_json import open_file
from profkit.errors import CaptureError

MAGIC = b"\x1f\x8b"
MOST_TIMES, MOST_MORE = 100, 64 << 20
"""Compressed data may expand to this multiple of its size and these bytes more: traces compress to a tenth or less."""
MOST_EMPTY = 1000
"""Streams without a byte in one file; each costs as much as one with many."""
_PIECE_BYTES = 1 << 18


def most_bytes(packed: int) -> int:
    """To how many bytes these compressed ones may expand; more are damage, or an attempt to fill the memory."""
    return MOST_TIMES * packed + MOST_MORE


class Unzipped:
    """A readable stream of a file's bytes, unpacked; `trouble` is the reason why the data ended early, or empty."""

    def __init__(self, file: BinaryIO, is_packed: bool) -> None:
        self._file = file
        self._is_packed = is_packed
        self._unpacker = zlib.decompressobj(wbits=31)
        self._packed = b""
        self._has_begun = False
        self._most = most_bytes(os.fstat(file.fileno()).st_size)
        self._count = 0
        self._empty = 0
        self.trouble = ""

    def read(self, count: int) -> bytes:
        """At most this number of bytes; none only at the end or after an error."""
        if not self._is_packed:
            return self._file.read(count)
        while not self.trouble:
            if not self._packed:
                self._packed = self._file.read(_PIECE_BYTES)
                if not self._packed:
                    if self._has_begun and not self._unpacker.eof:
                        self.trouble = "its gzip stream ends too early"
                    return b""
            if self._unpacker.eof:
                # A file may be several streams, one after another, and padded with zeros.
                self._packed = self._packed.lstrip(b"\0")
                if not self._packed:
                    continue
                self._unpacker = zlib.decompressobj(wbits=31)
                self._empty += 1
            self._has_begun = True
            before = self._unpacker.copy()
            try:
                data = self._unpacker.decompress(self._packed, count)
            except zlib.error as error:
                self.trouble = f"its gzip stream is damaged ({error})"
                return _good_part(before, self._packed, count)
            self._packed = self._unpacker.unused_data or self._unpacker.unconsumed_tail
            if data:
                return self._counted(data)
            if self._empty > MOST_EMPTY:
                self.trouble = "it has many gzip streams with nothing in them"
        return b""

    def _counted(self, data: bytes) -> bytes:
        self._empty = 0
        self._count += len(data)
        if self._count > self._most:
            self.trouble = f"it unpacks to more than {self._most:,} bytes, {MOST_TIMES} times its size and 64 MiB"
            return b""
        return data


def _good_part(unpacker: zlib._Decompress, packed: bytes, count: int) -> bytes:
    """What can be unpacked before the damage: zlib gives nothing of a call that meets it, so calls are made small."""
    parts = []
    try:
        for place in range(len(packed)):
            parts.append(unpacker.decompress(packed[place : place + 1], count))
    except zlib.error:
        pass
    return b"".join(parts)


@contextmanager
def unzipped(path: str | os.PathLike[str]) -> Iterator[Unzipped]:
    """The stream of a file, packed or not; CaptureError when it cannot be opened."""
    try:
        file = open_file(path)
        is_packed = file.read(len(MAGIC)) == MAGIC
        file.seek(0)
    except OSError as error:
        raise CaptureError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from None
    with file:
        yield Unzipped(file, is_packed)
