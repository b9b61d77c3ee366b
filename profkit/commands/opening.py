"""Any file that profkit reads: a path in, a capture or a result out; and what is missing in it."""

from __future__ import annotations

import argparse
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


LOST = 5
"""Exit code of --fail-on-loss."""


def add_capture_argument(parser: argparse.ArgumentParser) -> None:
    """The file that a command reads."""
    words = "file of profkit trace, network or record, of an operator's --json, of torch.profiler or nsys"
    parser.add_argument("capture", metavar="CAPTURE", help=words)


def add_loss_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """The flag of every command that reads captures."""
    words = f"exit with {LOST} when records were lost, or a program ran unrecorded"
    parser.add_argument("--fail-on-loss", action="store_true", help=words)


def loss_code(opened: Opened, arguments: argparse.Namespace) -> int:
    """What the shell is told of what is missing: 0 unless it asked for it."""
    return LOST if arguments.fail_on_loss and has_loss(opened) else 0


def has_loss(opened: Opened) -> bool:
    """Whether anything is missing that a recording should have; a result has no records to lose."""
    from profkit.capture.run import Run
    from profkit.measurement.result import Result

    if isinstance(opened, Result):
        return False
    captures = opened.captures if isinstance(opened, Run) else [opened]
    return any(each.losses.is_any for each in captures)


def trouble_lines(opened: Opened) -> list[str]:
    """What a reader of its numbers must know: losses first."""
    from profkit.capture.run import Run
    from profkit.measurement.result import Result
    from profkit.rendering.usage.content import loss_lines

    if isinstance(opened, Result):
        return ["warning: the measurement was interrupted"] if opened.interrupted else []
    if isinstance(opened, Run):
        return [] if opened.status == "ok" else [f"warning: the run is {opened.status}: {opened.reason}"]
    return [*loss_lines(opened), *(f"warning: {warning}" for warning in opened.warnings)]
