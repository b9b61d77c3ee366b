"""Programs that use a GPU, each in a folder of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.tracer.cupti.gpu_programs import GpuProgram, run_gpu_program


@pytest.fixture
def gpu(tmp_path: Path) -> GpuProgram:
    """Runs a program's text; its capture is gpu.profkit in the test's folder."""
    return partial(run_gpu_program, tmp_path)
