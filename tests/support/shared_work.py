"""Work that several test files need, done once: the processes that pytest-xdist starts share a folder and wait for
each other. A cache of each process would do it once per process.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OBJECTS_FOLDER = "TEST_OBJECTS_FOLDER"
"""The variable that names the folder in which conftest.py lets all processes of a run keep what they made. Not
PROFKIT_..., which programs under test are started without.
"""
KEPT_FOLDER = "KEPT_TEST_OBJECTS_FOLDER"
"""Set by .ci/run: a folder that stays, so that the second tier has what the first one made. It knows no changes: the
tree and the build must be the same in all runs that use it.
"""


def shared_folder() -> Path:
    """There until the run ends."""
    return Path(os.environ[OBJECTS_FOLDER])


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One at a time, of all threads of all processes."""
    with open(shared_folder() / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_once(name: str, make: Callable[[Path], Any]) -> tuple[Path, Any]:
    """A folder that `make` has filled, and the plain data that it returned; what raises is tried again."""
    folder = shared_folder() / name
    answer = folder.with_suffix(".json")
    with locked(name):
        if not answer.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            # Under another name first: a write that fails half-way must not look like an answer.
            unfinished = answer.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(make(folder)))
            unfinished.replace(answer)
    return folder, json.loads(answer.read_text())
