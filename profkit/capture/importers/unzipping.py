"""Bytes of a file that may be packed by gzip: a path in, a stream out that gives all it can."""

from __future__ import annotations

import os
import zlib
from typing import BinaryIO

from profkit.errors import CaptureError

MAGIC = b"\x1f\x8b"
MOST_TIMES, MOST_MORE = 100, 64 << 20
"""What is packed unpacks to at most so many times its size and so many bytes more: traces pack to a tenth or less."""
MOST_EMPTY = 1000
"""Streams without a byte in one file; each costs as much as one with many."""
_PIECE_BYTES = 1 << 18


def most_bytes(packed: int) -> int:
    """To how many bytes so many packed ones may unpack; more are damage, or meant to fill the memory."""
    return MOST_TIMES * packed + MOST_MORE


class Unzipped:
    """A readable stream of the unpacked bytes; `trouble` is why the last read came too early, or empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj(wbits=31)
        self._packed = b""
        self._has_begun = False
        self._most = most_bytes(os.fstat(file.fileno()).st_size)
        self._count = 0
        self._empty = 0
        self.trouble = ""

    def read(self, count: int) -> bytes:
        """At most so many bytes, and none only at the end or after trouble."""
        while not self.trouble:
            if not self._packed:
                self._packed = self._file.read(_PIECE_BYTES)
                if not self._packed:
                    if self._has_begun and not self._unpacker.eof:
                        self.trouble = "its gzip stream ends too early"
                    return b""
            if self._unpacker.eof:
                # A file may be several streams, one after another.
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


def open_unzipped(path: str | os.PathLike[str]) -> tuple[BinaryIO, Unzipped | BinaryIO]:
    """The open file, to be closed, and the stream of its bytes; CaptureError when it cannot be opened."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        is_packed = file.read(len(MAGIC)) == MAGIC
        file.seek(0)
    except OSError as error:
        raise CaptureError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from None
    return file, Unzipped(file) if is_packed else file
