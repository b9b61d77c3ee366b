"""Any file that profkit reads: a path in, a capture or a result out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profkit.capture.opening import Content, content_of, open_capture

if TYPE_CHECKING:
    from profkit.capture.run import Run
    from profkit.capture.schema import Capture
    from profkit.measurement.result import Result

    Opened = Capture | Run | Result


def open_any(path: str | os.PathLike[str]) -> Opened:
    """What the file holds; CaptureError when that cannot be read."""
    content = content_of(path)
    if content is Content.RESULT:
        from profkit.measurement.result import read_result

        return read_result(path)
    return open_capture(path, content)


def trouble_lines(opened: Opened) -> list[str]:
    """What a reader of its numbers must know: losses first."""
    from profkit.capture.run import Run
    from profkit.measurement.result import Result
    from profkit.rendering.usage.content import loss_lines, visible

    if isinstance(opened, Result):
        return ["warning: the measurement was interrupted"] if opened.interrupted else []
    if isinstance(opened, Run):
        return [] if opened.status == "ok" else [f"warning: the run is {opened.status}: {visible(opened.reason)}"]
    return [*loss_lines(opened), *(f"warning: {visible(warning)}" for warning in opened.warnings)]
