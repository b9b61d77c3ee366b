"""C programs that speak NVTX or ITT, each in a folder of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.tracer.doors.itt_programs import trace_itt
from tests.tracer.doors.nvtx_programs import trace_nvtx
from tests.tracer.programs import Traced


@pytest.fixture
def nvtx(tmp_path: Path) -> Traced:
    """Compiles a body of main against the real NVTX headers and runs it with our library as the tool."""
    return partial(trace_nvtx, tmp_path)


@pytest.fixture
def itt(tmp_path: Path) -> Traced:
    """Compiles a body of main that has found our library as its collector, and runs it."""
    return partial(trace_itt, tmp_path)
