"""Makes and removes environments: pinned requirements in, a folder that is ready or nothing out.

An environment grows under a temporary name and gets its own only when its framework has been imported in it, so
an interrupted creation leaves nothing that looks complete. Leftovers are removed by the next call.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from profkit.errors import UnavailableError, UsageError
from profkit.frameworks.environments import (
    READY,
    RECORD,
    SCHEMA,
    Environment,
    IsolatedFramework,
    environments_folder,
    look,
    python_in,
)

MessageCallback = Callable[[str], None]
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_PACKAGES = """
import importlib.metadata, json
print(json.dumps({each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}))
"""
_BUILD_TOOLS = ("setuptools", "wheel")
_PIP_NEWS = ("Collecting ", "Downloading ", "Building wheel", "Installing collected")


def create(foreign: IsolatedFramework, python: str, tell: MessageCallback, again: bool = False) -> Environment:
    """The environment, ready; made now unless it is there (or `again`). UnavailableError says what went wrong."""
    version = check_python(foreign, python)
    with _alone(foreign) as home:
        present = look(foreign)
        if present.state == READY and not again:
            return present
        begin = time.monotonic()
        partial = Path(tempfile.mkdtemp(prefix=f".{foreign.name}-", suffix=".partial", dir=home))
        try:
            _fill(foreign, partial, python, version, tell)
            record = {
                "schema": SCHEMA,
                "framework": foreign.name,
                "requirements": foreign.digest(),
                "python": version,
                "packages": _packages(partial),
                "seconds": round(time.monotonic() - begin, 1),
                "bytes": size_of(partial),
            }
            (partial / RECORD).write_text(json.dumps(record, indent=1) + "\n")
            _move_away(present.folder)
            partial.rename(present.folder)
        finally:
            _clear_leftovers(foreign, home)
    return look(foreign)


def remove(foreign: IsolatedFramework) -> bool:
    """Delete the environment; whether there was one."""
    folder = environments_folder() / foreign.name
    if not folder.exists():
        return False
    with _alone(foreign) as home:
        _move_away(folder)
        _clear_leftovers(foreign, home)
    return True


def check(environment: Environment) -> dict[str, str]:
    """Import the framework in its environment; its packages, or UnavailableError with Python's last words."""
    foreign, python = environment.foreign, str(python_in(environment.folder))
    with tempfile.TemporaryDirectory(prefix="profkit-check-") as folder:
        done = _asked(python, foreign.check, cwd=folder, env={**_clean_variables(), **foreign.check_environment})
    if done.returncode:
        raise UnavailableError(
            f"{foreign.name} cannot be imported in {environment.folder}\n  {_last_lines(done.stderr.splitlines())}"
        )
    return _packages(environment.folder)


def check_python(foreign: IsolatedFramework, python: str) -> str:
    """The version of an interpreter; UsageError when the pins have no builds for it, or it is not an interpreter."""
    try:
        done = _asked(python, _VERSION)
        version = done.stdout.strip()
        major, minor = (int(part) for part in version.split(".")[:2])
    except (OSError, ValueError):
        raise UsageError(f"{python} is not a Python interpreter") from None
    if foreign.oldest <= (major, minor) <= foreign.newest:
        return version
    oldest, newest = (".".join(map(str, bound)) for bound in (foreign.oldest, foreign.newest))
    raise UsageError(
        f"{foreign.name} needs Python {oldest} to {newest}, {python} is {version} ({foreign.why})\n"
        f"  {foreign.create_line} --python {_other_python(foreign) or f'/path/to/python{newest}'}"
    )


def size_of(folder: Path) -> int:
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in paths)


def _other_python(foreign: IsolatedFramework) -> str:
    """A suitable interpreter on the path; empty without one."""
    for minor in range(foreign.newest[1], foreign.oldest[1] - 1, -1):
        found = shutil.which(f"python{foreign.newest[0]}.{minor}")
        if found is None:
            continue
        # A launcher of that name may lead to no interpreter, or to another one.
        if _asked(found, _VERSION).stdout.startswith(f"{foreign.newest[0]}.{minor}."):
            return found
    return ""


def _fill(foreign: IsolatedFramework, folder: Path, python: str, version: str, tell: MessageCallback) -> None:
    tell(f"virtual environment with Python {version}")
    pip = _own_pip()
    _run([python, "-m", "venv", *(["--without-pip"] if pip else []), str(folder)], "python -m venv failed")
    tell("installing " + ", ".join(foreign.pins()))
    inside = str(python_in(folder))
    command = [*pip, "--python", inside] if pip else [inside, "-m", "pip"]
    # Bytecode comes with the first import of a module; most of SciPy is never imported.
    command += ["install", "--no-input", "--no-deps", "--no-compile", "--progress-bar", "off"]
    variables = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_USER": "0", **_build_pins(foreign, folder)}
    advice = "pip install failed; it needs a network, or wheels in a folder that PIP_FIND_LINKS names"
    _run([*command, "-r", str(foreign.requirements)], advice, variables, tell)
    tell("importing it")
    check(Environment(foreign, folder, READY))


def _build_pins(foreign: IsolatedFramework, folder: Path) -> dict[str, str]:
    """Variables that make pip use the pinned tools when it builds a package from source, in an isolated place."""
    pins = [pin for pin in foreign.pins() if pin.partition("==")[0] in _BUILD_TOOLS]
    if not pins:
        return {}
    path = folder / "build-pins.txt"
    path.write_text("\n".join(pins) + "\n")
    # Which of the two does it depends on pip's version.
    return dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(path))


def _own_pip() -> list[str]:
    """The pip beside profkit, which spares the new environment one; empty when it is missing or too old for that."""
    try:
        major, minor = (int(part) for part in importlib.metadata.version("pip").split(".")[:2])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return []
    return [sys.executable, "-m", "pip"] if (major, minor) >= (22, 3) else []


def _run(
    command: Sequence[str],
    trouble: str,
    variables: Mapping[str, str] | None = None,
    tell: MessageCallback | None = None,
) -> None:
    """Run a command, reporting pip's progress from its output; UnavailableError with its last lines when it fails."""
    said: list[str] = []
    with subprocess.Popen(
        command,
        env={**_clean_variables(), **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                said.append(line.strip())
                if tell and said[-1].startswith(_PIP_NEWS):
                    tell(re.sub(r" \(from .*\)$", "", said[-1]))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise UnavailableError(f"{trouble}\n  {_last_lines(said)}")


def _last_lines(lines: Sequence[str]) -> str:
    """What was last said of a connection, and the errors; else the last lines."""
    spoken = [line.strip() for line in lines if line.strip()]
    troubles = [line for line in spoken if "connection" in line.lower()][-1:]
    errors = [line for line in spoken if line.lower().startswith("error")][-3:]
    return "\n  ".join([*troubles, *errors] or spoken[-3:]) or "it said nothing"


def _clean_variables() -> dict[str, str]:
    """This process's variables without those that would lead the other Python to this one's packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _packages(folder: Path) -> dict[str, str]:
    done = _asked(str(python_in(folder)), _PACKAGES, env=_clean_variables())
    done.check_returncode()
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _asked(python: str, code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter and keep what it says."""
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, **options)


@contextlib.contextmanager
def _alone(foreign: IsolatedFramework) -> Iterator[Path]:
    """The folder of environments, while no other process makes or removes this one."""
    home = environments_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = open(home / f".{foreign.name}.lock", "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UnavailableError(
            f"{home} cannot be written: {error.strerror}\n  export PROFKIT_ENVIRONMENTS=/a/folder/of/yours"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UnavailableError(f"another process is making or removing {foreign.name} in {home} now") from None
        _clear_leftovers(foreign, home)
        yield home


def _move_away(folder: Path) -> None:
    """Take a folder's name away at once; deleting takes longer and may be interrupted."""
    if folder.exists():
        folder.rename(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=".partial", dir=folder.parent))


def _clear_leftovers(foreign: IsolatedFramework, home: Path) -> None:
    for leftover in home.glob(f".{foreign.name}-*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)
