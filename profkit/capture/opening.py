"""The kind of a file, from its content, and opening of captures: the one place that recognises files.

Results are recognised here and read by measurement/result.py, which is a later stage.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING

from profkit.capture.run import MAGIC, Run, load_run
from profkit.errors import CaptureError, TraceError

if TYPE_CHECKING:
    from profkit.capture.schema import Capture

RESULT_SCHEMA = "profkit.result/"
"""How the schema of results begins; the number of the version follows."""
_HEAD_BYTES = 64
_SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPORTS = (".nsys-rep", ".qdrep")  # what nsys profile leaves; only nsys itself reads it
_EVENTS = "traceEvents"


class Content(Enum):
    """What a file holds, in the words of messages."""

    PROGRAM = "capture of a program"
    NETWORK = "capture of a network"
    KINETO = "trace of torch.profiler"
    NSIGHT = "trace of Nsight Systems"
    RESULT = "result"


def content_of(path: str | os.PathLike[str]) -> Content:
    """What the file holds; CaptureError for what profkit cannot read, with the next step.

    Any other beginning is taken for a capture of a program, whose reader says what is wrong with it.
    """
    head = _head(path)
    if os.fspath(path).endswith(_REPORTS) and os.path.isfile(path):
        raise TraceError(
            f"{os.fspath(path)} is a report that only Nsight Systems reads; "
            f"`nsys export --type sqlite {os.path.basename(path)}` makes a file of it that profkit reads"
        )
    if head.startswith(_SQLITE):
        return Content.NSIGHT
    if head.startswith(MAGIC):
        return Content.NETWORK
    if head.startswith(_GZIP) or head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        return _content_of_json(os.fspath(path))
    return Content.PROGRAM


def open_capture(path: str | os.PathLike[str], content: Content) -> Capture | Run:
    """The capture or trace in a file of this content; CaptureError when it cannot be read."""
    if content is Content.NETWORK:
        return load_run(os.fspath(path))
    if content is Content.NSIGHT:
        from profkit.capture.importers.nsight import read_nsight

        return read_nsight(path)
    if content is Content.KINETO:
        from profkit.capture.importers.kineto import read_kineto

        return read_kineto(path)
    from profkit.capture.reading import read

    return read(path)


def _content_of_json(path: str) -> Content:
    """By the outermost keys, of which those before the first event are read; what is damaged, is so as a trace."""
    from profkit.capture.importers.json_stream import DamagedError, JsonStream
    from profkit.capture.importers.unzipping import unzipped

    with unzipped(path) as stream:
        try:
            for key, value in JsonStream(stream).walk(_EVENTS):
                if key == _EVENTS:
                    return Content.KINETO
                if key == "schema" and isinstance(value, str) and value.startswith(RESULT_SCHEMA):
                    return Content.RESULT
                if key == "schema" and isinstance(value, str) and value.startswith("profkit."):
                    raise TraceError(
                        f"{path} is JSON that profkit writes for other programs ({value:.40}) and does not read; "
                        "give the capture or the result that it was made from"
                    )
        except DamagedError:
            return Content.KINETO
        except OSError as error:
            raise CaptureError(f"cannot read {path}: {error.strerror or error}") from None
    raise TraceError(
        f"{path} is JSON without events: a trace of torch.profiler has them under {_EVENTS!r}; nor is it a result, "
        f"whose schema is {RESULT_SCHEMA}1 (profkit conv --json result.json writes one)"
    )


def _head(path: str | os.PathLike[str]) -> bytes:
    try:
        # A pipe cannot be read twice: only the tracer's reader deals with those.
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
