"""profkit._cuda as it is built, linked with a double of the CUDA runtime that runs the emulated kernels.

The host objects are nvcc's own, from the build folder: launch geometry, argument order and error paths are tested as
they will meet a GPU. Processes get the module through their environment, so that commands and workers have it too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from tests.cuda.emulation import EMULATED_FLAGS, all_cuda_sources
from tests.support.places import CUDA_NATIVE, ROOT
from tests.support.processes import finish, succeed
from tests.support.sanitized_programs import compiled_object
from tests.support.shared_work import made_once

BUILD_FOLDER = "PROFKIT_BUILD_FOLDER"
"""The variable that names another build folder than the one `pip install -e .` leaves."""
_SITE = """
import importlib.machinery, importlib.util, sys

class DoubleFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "profkit._cuda":
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, {module!r})
        return importlib.util.spec_from_file_location(name, {module!r}, loader=loader)

sys.meta_path.insert(0, DoubleFinder)
"""


@cache
def build_folder() -> Path:
    """Where the objects of profkit._cuda are; the test is skipped where CUDA was not compiled."""
    named = os.environ.get(BUILD_FOLDER)
    folders = [Path(named)] if named else sorted(ROOT.glob("build/*"))
    found = [folder for folder in folders if list(folder.glob("csrc/CMakeFiles/profkit_cuda.dir/**/*.cu.o"))]
    if not found:
        pytest.skip("no objects of CUDA host code in build/: profkit was built without CUDA, or elsewhere")
    return found[-1]


@cache
def double_environment() -> dict[str, str]:
    """Variables under which a Python process has profkit._cuda on the double."""
    build_folder()  # skips here, not while others wait for what is made
    folder, _ = made_once("cuda-double", _link_module)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def _link_module(folder: Path) -> None:
    library = _link_double(folder)
    module = folder / f"_cuda{sysconfig.get_config_var('EXT_SUFFIX')}"
    build = build_folder() / "csrc" / "CMakeFiles"
    objects = [*build.glob("profkit_cuda.dir/**/*.o"), *build.glob("_cuda.dir/**/*.o")]
    _link(module, [str(path) for path in objects], ["-L", str(folder), f"-l:{library.name}", f"-Wl,-rpath,{folder}"])
    (folder / "sitecustomize.py").write_text(_SITE.format(module=str(module)))


def _link_double(folder: Path) -> Path:
    library = folder / "libcudart_double.so"
    plain = (
        "-std=c++17",
        "-O1",
        "-fPIC",
        "-fvisibility=hidden",
        "-isystem",
        _toolkit_headers(),
        "-I",
        str(CUDA_NATIVE),
    )
    emulated = (*EMULATED_FLAGS, "-x", "c++")
    jobs = [
        *((path, emulated) for path in all_cuda_sources()),
        *((CUDA_NATIVE / name, EMULATED_FLAGS) for name in ("simt.cpp", "simt_fiber.cpp", "cudart_double_launch.cpp")),
        *((CUDA_NATIVE / f"cudart_double{part}.cpp", plain) for part in ("", "_cupti", "_state")),
    ]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: compiled_object(*job), jobs))
    # Symbolic: nvcc's objects define the same functions, and each side must call its own.
    _link(library, objects, ["-Wl,-Bsymbolic", "-pthread", "-ldl"])
    return library


def _link(target: Path, objects: list[str], flags: list[str]) -> None:
    succeed(["g++", "-shared", *objects, "-o", str(target), *flags])


def _toolkit_headers() -> str:
    facts = next(build_folder().glob("CMakeFiles/*/CMakeCUDACompiler.cmake")).read_text()
    found = re.search(r'set\(CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES "([^";]+)', facts)
    assert found is not None
    return found.group(1)


def run_on_double(arguments: Sequence[str], **settings: object) -> subprocess.CompletedProcess[str]:
    """A Python process with profkit._cuda on the double; settings are those of cudart_double_state.h, in lower case."""
    wanted = {f"PROFKIT_CUDA_DOUBLE_{name.upper()}": str(value) for name, value in settings.items()}
    return finish([sys.executable, *arguments], {**os.environ, **double_environment(), **wanted})
