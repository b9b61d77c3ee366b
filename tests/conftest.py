"""For all tests: one folder of what is slow to make, shared by the processes that pytest-xdist starts."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from shared_work import OBJECTS_FOLDER


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the folder and takes it away; its workers inherit the variable."""
    if OBJECTS_FOLDER in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="profkit-objects-")
    os.environ[OBJECTS_FOLDER] = folder

    def take_away() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[OBJECTS_FOLDER]

    config.add_cleanup(take_away)
