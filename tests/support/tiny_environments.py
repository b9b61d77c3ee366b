"""A framework of one file, as a wheel made here: environments of it need no package index and a second or two."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from profkit.frameworks.environment_maker import create
from profkit.frameworks.environments import IsolatedFramework, environments_folder, look

WORKING = "VERSION = '1.0'\n"


def tiny(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str = WORKING) -> IsolatedFramework:
    """The framework; from now on pip looks into the folder only, and environments lie below it."""
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    _write_wheel(wheels / "tiny-1.0-py3-none-any.whl", code)
    requirements = folder / "tiny.txt"
    requirements.write_text("# one package\ntiny==1.0  # the only one\n")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(folder / "environments"))
    return IsolatedFramework("tiny", "tiny", requirements, "import tiny", why="tests")


def made_tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedFramework:
    """The framework with its environment, which is made once for all tests and copied."""
    foreign = tiny(folder, monkeypatch)
    if not _made:
        create(foreign, sys.executable, lambda _: None)
        home = tempfile.mkdtemp(prefix="profkit-tiny-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _made.append(shutil.copytree(look(foreign).folder, Path(home) / "tiny", symlinks=True))
    else:
        shutil.copytree(_made[0], environments_folder() / "tiny", symlinks=True)
    return foreign


_made: list[Path] = []


def _write_wheel(path: Path, code: str) -> None:
    about = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", code)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
