"""Any capture file: a path goes in, the Capture of a program or a GPU trace, or that of a network comes out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.capture.network_capture import MAGIC, NetworkCapture, load_network_capture
from profkit.errors import TraceError

if TYPE_CHECKING:
    from profkit.capture.schema import Capture

_HEAD_BYTES = 64
_SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPORTS = (".nsys-rep", ".qdrep")  # what nsys profile leaves; only nsys itself reads it


def open_any(path: str | os.PathLike[str]) -> Capture | NetworkCapture:
    """What the file holds, told by its first bytes; CaptureError when it is none of all."""
    if is_network_capture(path):
        return load_network_capture(os.fspath(path))
    if _is_report(path):
        raise TraceError(
            f"{os.fspath(path)} is a report that only Nsight Systems reads; "
            f"`nsys export --type sqlite {os.path.basename(path)}` makes a file of it that profkit reads"
        )
    head = _head(path)
    if head.startswith(_SQLITE):
        from profkit.capture.nsight import read_nsight

        return read_nsight(path)
    if head.startswith(_GZIP) or head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        from profkit.capture.kineto import read_kineto

        return read_kineto(path)
    from profkit.capture.reading import read

    return read(path)


def is_network_capture(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as the capture of a network does; what cannot be read does not."""
    return _head(path).startswith(MAGIC)


def _is_report(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(_REPORTS) and os.path.isfile(path)


def _head(path: str | os.PathLike[str]) -> bytes:
    try:
        # A pipe cannot be read twice: only the tracer's reader deals with those.
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
