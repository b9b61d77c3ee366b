"""Programs under `python -m profkit.trace` for tests: a script's text in, its end and its capture out."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from profkit.capture.schema import Capture
from tests.support.processes import finish


def trace_words(*words: str) -> list[str]:
    return [sys.executable, "-m", "profkit.trace", *words]


def traced(folder: Path, code: str, *flags: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Trace this script in `folder`; the capture is run.profkit."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    return finish(trace_words("--output", "run.profkit", *flags, "script.py", *arguments), cwd=folder, input="typed\n")


def titles(capture: Capture, process: int | None = None) -> list[str]:
    """Names of the ranges, of all processes or of one."""
    owners = capture.threads.process[capture.ranges.thread]
    return [capture.range_title(row) for row in range(len(capture.ranges)) if process in (None, owners[row])]
