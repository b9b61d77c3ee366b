"""Both formats of traces, for tests that ask the same of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from profkit.rendering.traces.content import TraceContent
from profkit.rendering.traces.files import write_chrome, write_perfetto

Writer = Callable[[TraceContent, Path], None]
WRITERS: list[Writer] = [write_chrome, write_perfetto]
FORMATS = ["chrome", "perfetto"]
both_formats = pytest.mark.parametrize("write", WRITERS, ids=FORMATS)
ABOUT = 1
"""The instant that tells about the capture."""
