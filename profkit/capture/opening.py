"""Any capture file: a path goes in, the capture of a traced program or of a network or a GPU trace comes out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.capture.network_capture import MAGIC, NetworkCapture, load_network_capture
from profkit.errors import TraceError

if TYPE_CHECKING:
    from profkit.capture.device_trace import DeviceTrace
    from profkit.capture.tables import Capture

_HEAD_BYTES = 64
_SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPORTS = (".nsys-rep", ".qdrep")  # what nsys profile leaves; only nsys itself reads it


def open_any(path: str | os.PathLike[str]) -> Capture | NetworkCapture | DeviceTrace:
    """What the file holds, told by its first bytes; CaptureError when it is none of these."""
    return open_device_trace(path) if is_device_trace(path) else open_capture(path)


def open_capture(path: str | os.PathLike[str]) -> Capture | NetworkCapture:
    """A capture that profkit itself wrote; CaptureError when the file is not a capture."""
    from profkit.capture.reading import read

    return load_network_capture(os.fspath(path)) if is_network_capture(path) else read(path)


def open_device_trace(path: str | os.PathLike[str]) -> DeviceTrace:
    """The trace of torch.profiler or Nsight Systems that the file holds; CaptureError when it is neither."""
    if _is_report(path):
        raise TraceError(
            f"{os.fspath(path)} is a report that only Nsight Systems reads; "
            f"`nsys export --type sqlite {os.path.basename(path)}` makes a file of it that profkit reads"
        )
    if _head(path).startswith(_SQLITE):
        from profkit.capture.nsight import read_nsight

        return read_nsight(path)
    from profkit.capture.kineto import read_kineto

    return read_kineto(path)


def is_device_trace(path: str | os.PathLike[str]) -> bool:
    """Whether the file is of a form that foreign GPU traces have: SQLite, JSON (plain or by gzip), .nsys-rep."""
    head = _head(path)
    if head.startswith((_SQLITE, _GZIP)) or _is_report(path):
        return True
    return head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"[")


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
