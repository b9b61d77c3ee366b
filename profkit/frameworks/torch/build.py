"""The native recorder of torch's events: compiled on first use against the installed torch, kept in the cache folder.

A file there carries the digest of its contents and of everything it was built for, so that one of another torch, Python
or compiler, or a damaged one, is never loaded but made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from profkit.errors import UnavailableError
from profkit.frameworks.cache import cache_folder
from profkit.frameworks.compilers import compiler_version, find_compiler

MODULE = "profkit_torch_recorder"
SOURCES = Path(__file__).parent / "recorder"
TIMEOUT_S = 300
_SEAL = b"\nprofkit recorder "

# Runs in a separate process: what was built for a layout that torch does not have may crash.
_TRIAL = f"""
import importlib.machinery, importlib.util, sys, torch
loader = importlib.machinery.ExtensionFileLoader({MODULE!r}, sys.argv[1])
recorder = importlib.util.module_from_spec(importlib.util.spec_from_loader({MODULE!r}, loader))
a = torch.ones(1000)
a + a
recorder.start(True, True, ())
b = a + a
[log] = recorder.stop()
names = recorder.names()
assert names == ["aten::add"], names
import struct
assert struct.unpack("qQqq", log["allocations"])[2:] == (4000, 0)
assert struct.unpack("6q", log["words"]) == (1, 1000, a.data_ptr()) * 2
"""


def load_recorder() -> Any:
    """The recorder's module, built if need be; UnavailableError with the reason where that cannot be."""
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    build = RecorderBuild()
    path = build.path
    if not is_sealed(path, build.key):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.with_suffix(".lock")):
                if not is_sealed(path, build.key):  # another process may have made it meanwhile
                    build.make(path)
        except OSError as error:
            raise UnavailableError(f"the recorder cannot be stored in {path.parent}: {error}") from None
    module = _imported(path)
    sys.modules[MODULE] = module
    return module


class RecorderBuild:
    """How the recorder is compiled here, and the key of all that decides whether a file fits."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise UnavailableError(f"the recorder is written for Linux, this is {sys.platform}")
        torch = importlib.import_module("torch")
        if torch.version.debug:
            raise UnavailableError("this torch is a debug build, whose records have another layout")
        folder = Path(str(torch.__file__)).parent
        headers = Path(sysconfig.get_paths()["include"])
        _must_exist(folder / "include" / "ATen" / "record_function.h", "torch's headers are missing")
        _must_exist(headers / "Python.h", "Python's headers are missing (install python3-dev)")
        self.compiler = find_compiler(".cpp")
        # What torch was compiled as, its headers need as well.
        standard = re.search(r"C\+\+ Version: (\d{4})", torch.__config__.show())
        self.flags = [
            f"-std=c++{20 if standard and int(standard.group(1)) >= 2020 else 17}",
            *("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"),
            "-DNDEBUG",  # at::RecordFunction has one member more without it
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        ]
        self.places = ["-isystem", str(folder / "include"), "-isystem", str(headers), f"-L{folder / 'lib'}"]
        about = {
            "torch": [torch.__version__, torch.version.git_version],
            "python": sysconfig.get_config_var("SOABI"),
            "machine": platform.machine(),
            "compiler": compiler_version(self.compiler),
            "flags": self.flags,
            "sources": {path.name: path.read_text() for path in sorted(SOURCES.iterdir()) if path.is_file()},
        }
        self.key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        self.path = cache_folder() / "torch" / f"recorder-{torch.__version__}-{self.key[:16]}.so"

    def make(self, path: Path) -> None:
        """Compile, try it in a separate process, and put it in place whole."""
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
            target = Path(folder) / f"{MODULE}.so"
            source = str(SOURCES / "module.cpp")
            command = [*self.compiler, *self.flags, source, "-o", str(target), *self.places, "-lc10", "-ltorch_cpu"]
            _run(command, "the recorder could not be compiled")
            _run([sys.executable, "-c", _TRIAL, str(target)], "the recorder does not fit this torch")
            seal(target, self.key)
            os.replace(target, path)


def seal(path: Path, key: str) -> None:
    """Append the digest of contents and key; the loader does not mind what follows a library's sections."""
    with path.open("rb+") as file:
        digest = hashlib.sha256(file.read() + key.encode()).hexdigest()
        file.write(_SEAL + digest.encode())


def is_sealed(path: Path, key: str) -> bool:
    """Whether this file is whole and was built for exactly this key."""
    try:
        content, _, digest = path.read_bytes().rpartition(_SEAL)
    except OSError:
        return False
    return hashlib.sha256(content + key.encode()).hexdigest().encode() == digest


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time builds; where the file system has no locks, each builds its own and the last one stays."""
    import fcntl

    with path.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _imported(path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    specification = importlib.util.spec_from_loader(MODULE, loader)
    if specification is None:
        raise UnavailableError(f"{path} is not a module")
    try:
        module = importlib.util.module_from_spec(specification)
    except ImportError as error:
        raise UnavailableError(f"the recorder cannot be loaded: {error}") from None
    loader.exec_module(module)
    return module


def _run(command: list[str], complaint: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{complaint}: not done after {TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        telling = next((line for line in lines if "error:" in line), lines[-1] if lines else "")
        how = f"signal {-done.returncode}" if done.returncode < 0 else telling
        raise UnavailableError(f"{complaint}: {how}")


def _must_exist(path: Path, complaint: str) -> None:
    if not path.exists():
        raise UnavailableError(f"{complaint}: no {path}")
