"""Virtual environments of frameworks that cannot share one with the others: their folders and interpreters.

`python -m profkit.env` makes them (environment_maker.py). Standard library only: workers import this module too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from profkit.capture.checked_json import check, read_json
from profkit.frameworks.adapter import Availability
from profkit.frameworks.cache import cache_folder

RECORD = "profkit-environment.json"
"""Written into an environment last, when its framework has been imported: a folder without it is not ready."""
SCHEMA = "profkit.environment/1"
NOT_MADE, READY, OUTDATED, DAMAGED = "not made", "ready", "outdated", "damaged"


class _Record(TypedDict):
    """What is read of that file."""

    schema: str
    requirements: str
    python: str
    bytes: int
    seconds: float
    packages: dict[str, str]


@dataclass(frozen=True)
class IsolatedFramework:
    name: str
    module: str
    requirements: Path
    """A pip requirements file in which everything is pinned."""
    check: str
    """Python code that imports the framework and fails when it cannot serve."""
    check_environment: dict[str, str] = field(default_factory=dict)
    oldest: tuple[int, int] = (3, 10)
    newest: tuple[int, int] = (3, 13)
    """Of the Python versions for which the pins have builds."""
    why: str = ""
    """The reason for these bounds."""

    def pins(self) -> tuple[str, ...]:
        """The requirements, without comments."""
        lines = (line.partition("#")[0].strip() for line in self.requirements.read_text().splitlines())
        return tuple(line for line in lines if line)

    def digest(self) -> str:
        """Changes when a pin changes."""
        return hashlib.sha256("\n".join(sorted(self.pins())).encode()).hexdigest()[:16]

    @property
    def create_line(self) -> str:
        return f"python -m profkit.env create {self.name}"


_REQUIREMENTS = Path(__file__).parent / "requirements"
FOREIGN = {
    each.name: each
    for each in (
        IsolatedFramework(
            "theano",
            "theano",
            _REQUIREMENTS / "theano.txt",
            "import theano, theano.tensor.nnet",
            # Importing Theano would otherwise compile a module and write into the home folder.
            {"THEANO_FLAGS": "cxx=,blas.ldflags=,device=cpu,base_compiledir=.", "THEANORC": os.devnull},
            newest=(3, 11),
            why="NumPy 1.23.5, the last that Theano works with, has no builds for others",
        ),
        IsolatedFramework(
            "caffe",
            "cv2",
            _REQUIREMENTS / "caffe.txt",
            "import cv2; cv2.dnn.readNetFromCaffe",
            why="NumPy 2.2.6 has no builds for others",
        ),
    )
}


@dataclass(frozen=True)
class Environment:
    """The contents of an environment's folder."""

    foreign: IsolatedFramework
    folder: Path
    state: str
    """One of NOT_MADE, READY, OUTDATED, DAMAGED."""
    trouble: str = ""
    """Why it is not ready, as the end of a sentence."""
    record: dict[str, Any] = field(default_factory=dict)
    """What was written when it was made: python, packages, seconds, bytes."""

    @property
    def python(self) -> str:
        return str(python_in(self.folder))


def environments_folder() -> Path:
    """PROFKIT_ENVIRONMENTS, else a folder in profkit's cache."""
    named = os.environ.get("PROFKIT_ENVIRONMENTS")
    return Path(named) if named else cache_folder() / "environments"


def python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def look(foreign: IsolatedFramework) -> Environment:
    """The environment as it is now; nothing is started."""
    folder = environments_folder() / foreign.name
    if not folder.exists():
        return Environment(foreign, folder, NOT_MADE, "has no environment yet")
    try:
        record = read_json(folder / RECORD)
        check(record, _Record, "it is")
        digest = record["requirements"] if record["schema"] == SCHEMA else ""
    except (OSError, ValueError):
        return Environment(foreign, folder, DAMAGED, f"has an unusable environment: {folder / RECORD} cannot be read")
    if not python_in(folder).exists():
        reason = f"has an unusable environment: {python_in(folder)} leads nowhere (was the Python below it removed?)"
        return Environment(foreign, folder, DAMAGED, reason, record)
    if digest != foreign.digest():
        reason = "has an environment with other versions than this profkit pins"
        return Environment(foreign, folder, OUTDATED, reason, record)
    return Environment(foreign, folder, READY, record=record)


def interpreter_for(framework: str) -> str:
    """The Python that runs this framework's worker: that of its own environment, else this one."""
    environment = look(FOREIGN[framework]) if framework in FOREIGN else None
    return environment.python if environment and environment.state == READY else sys.executable


def availability(framework: str, below: int | None = None) -> Availability:
    """Whether the framework has its environment, or is installed beside profkit in a version that serves."""
    foreign = FOREIGN[framework]
    environment = look(foreign)
    if environment.state == READY:
        return Availability(True)
    if importlib.util.find_spec(foreign.module) is not None and _is_older(foreign.module, below):
        return Availability(True)
    return Availability(False, f"{framework} {environment.trouble}", foreign.create_line)


def _is_older(module: str, below: int | None) -> bool:
    """Whether the installed module's major version is below a bound, read without importing it."""
    if below is None:
        return True
    import importlib.metadata

    names = importlib.metadata.packages_distributions().get(module, [])
    versions = [re.match(r"\d+", importlib.metadata.version(name)) for name in names]
    return any(found is not None and int(found.group()) < below for found in versions)
