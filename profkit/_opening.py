"""Any file that profkit reads: a path in, a capture, a GPU trace or a result out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.capture.opening import Content, content_of, open_capture

if TYPE_CHECKING:
    from profkit.capture.device_trace import DeviceTrace
    from profkit.capture.network_capture import NetworkCapture
    from profkit.capture.tables import Capture
    from profkit.measurement.result import Result


def open_any(path: str | os.PathLike[str]) -> Capture | NetworkCapture | DeviceTrace | Result:
    """What the file holds; CaptureError when that cannot be read."""
    content = content_of(path)
    if content is Content.RESULT:
        from profkit.measurement.result import read_result

        return read_result(path)
    return open_capture(path, content)
