"""Any file that profkit reads: a path in, a capture or a result out; and its losses."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

from profkit.capture.opening import Content, content_of, open_capture
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.measurement.options import OPTIONS, option
from profkit.measurement.result import Result, read_result
from profkit.rendering.usage.content import loss_lines

Opened = Capture | Run | Result
LOST = 5
"""Exit code of --fail-on-loss."""


def open_any(path: str | os.PathLike[str]) -> Opened:
    """The content of the file; CaptureError if it cannot be read."""
    content = content_of(path)
    return read_result(path) if content is Content.RESULT else open_capture(path, content)


def add_capture_argument(parser: argparse.ArgumentParser) -> None:
    words = "file written by profkit trace, network or record, an operator's --json, torch.profiler or nsys"
    parser.add_argument("capture", metavar="CAPTURE", help=words)


@dataclass(frozen=True)
class LossOptions:
    fail_on_loss: bool = option(False, OPTIONS, f"exit with {LOST} if records were lost or a program ran unrecorded")

    def exit_code(self, opened: Opened) -> int:
        """Of a command that showed or wrote what was recorded."""
        return LOST if self.fail_on_loss and has_loss(opened) else 0


def has_loss(opened: Opened) -> bool:
    """Whether records were lost; a result has none to lose."""
    if isinstance(opened, Result):
        return False
    captures = opened.captures if isinstance(opened, Run) else [opened]
    return any(each.losses.is_any for each in captures)


def trouble_lines(opened: Opened) -> list[str]:
    """The warnings about its numbers: losses first."""
    if isinstance(opened, Result):
        return ["warning: the measurement was interrupted"] if opened.interrupted else []
    if isinstance(opened, Run):
        return [] if opened.status == "ok" else [f"warning: the run is {opened.status}: {opened.reason}"]
    return [*loss_lines(opened), *(f"warning: {warning}" for warning in opened.warnings)]
