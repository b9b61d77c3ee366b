"""Any capture file: a path goes in, the capture of a traced program or of a network comes out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.capture.network_capture import MAGIC, NetworkCapture, load_network_capture

if TYPE_CHECKING:
    from profkit.capture.tables import Capture


def open_capture(path: str | os.PathLike[str]) -> Capture | NetworkCapture:
    """What the file holds, told by its first bytes; CaptureError when it is neither."""
    from profkit.capture.reading import read

    return load_network_capture(os.fspath(path)) if is_network_capture(path) else read(path)


def is_network_capture(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as the capture of a network does; what cannot be read does not."""
    try:
        # A pipe cannot be read twice: only the tracer's reader deals with those.
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
