"""The headers that profkit installs: params.h for candidates in C and C++, the CUDA kernels for candidates and CuPy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from profkit.errors import UnavailableError


def include_path() -> Path:
    """Folder for a compiler's -I: it holds profkit/params.h and profkit/kernels/<operator>/cuda/*.cuh."""
    found = importlib.util.find_spec("profkit._core")
    folder = Path(found.origin).parent / "include" if found is not None and found.origin else None
    if folder is None or not (folder / "profkit" / "params.h").is_file():
        raise UnavailableError("profkit/params.h was not found: the compiled module is missing; pip install -e .")
    return folder


def include_flags() -> list[str]:
    """Both -I flags that the kernels' headers need: they include each other as kernels/..., without profkit/."""
    folder = include_path()
    return [f"-I{folder}", f"-I{folder / 'profkit'}"]


def kernel_headers(folder: Path | None = None) -> list[str]:
    """What can be included, as <profkit/kernels/matmul/cuda/naive.cuh>: every header that has a kernel in it."""
    folder = folder or include_path() / "profkit" / "kernels"
    paths = sorted(path for path in folder.glob("*/cuda/*.cuh") if "__global__" in path.read_text(encoding="utf-8"))
    return [path.relative_to(folder).as_posix() for path in paths]
