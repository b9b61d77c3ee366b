"""The recorded program, compiled once per file, and its runs in the folder of a test."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.places import TRACER_NATIVE
from tests.support.sanitized_programs import build_program
from tests.tracer.core.recorder_programs import Record, recorded
from tests.tracer.programs import skip_without_library


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip_without_library()
    folder = tmp_path_factory.mktemp("recorded")
    return build_program(folder / "recorded_program", [TRACER_NATIVE / "recorded_program.cpp"])


@pytest.fixture
def record(program: Path, tmp_path: Path) -> Record:
    """Runs it to its end: how it ended, and its capture."""
    return partial(recorded, program, tmp_path)
