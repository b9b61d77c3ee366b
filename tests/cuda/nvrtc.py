"""NVRTC through ctypes, as CuPy calls it: source and names of kernels in, cubin and the names in it out. No driver."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.processes import finish


class NvrtcError(Exception):
    """The compiler's own words."""


@cache
def library_path() -> Path | None:
    """libnvrtc of the nvidia-cuda-nvrtc wheel."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (found.submodule_search_locations or ())] if found else []
    return next((path for folder in folders for path in sorted(folder.glob("cu*/lib/libnvrtc.so.*"))), None)


@cache
def toolkit_headers() -> Path | None:
    """Where cuda_fp16.h is: nvcc says which folder it would search."""
    if shutil.which("nvcc") is None:
        return None
    done = finish(["nvcc", "--dryrun", "-x", "cu", "-c", "/dev/null"])
    folders = [Path(folder) for folder in re.findall(r'"?-I([^"\s]+)', done.stderr)]
    return next((folder for folder in folders if (folder / "cuda_fp16.h").is_file()), None)


@cache
def _library() -> ctypes.CDLL:
    path = library_path()
    assert path is not None
    # Loaded first: libnvrtc looks for it by name only.
    for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def compile_kernels(
    source: str, architecture: str, flags: Sequence[str], names: Sequence[str]
) -> tuple[bytes, list[str]]:
    """The cubin for this architecture (`sm_90`), and the mangled name of each kernel that was asked for."""
    program = ctypes.c_void_p()
    _call("CreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        for name in names:
            _call("AddNameExpression", program, name.encode())
        options = [f"--gpu-architecture={architecture}", "-std=c++17", *flags]
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if _library().nvrtcCompileProgram(program, len(options), words):
            raise NvrtcError(_text("ProgramLog", program))
        lowered = [_lowered(program, name) for name in names]
        return _bytes("CUBIN", program), lowered
    finally:
        _call("DestroyProgram", ctypes.byref(program))


def _lowered(program: ctypes.c_void_p, name: str) -> str:
    found = ctypes.c_char_p()
    _call("GetLoweredName", program, name.encode(), ctypes.byref(found))
    return (found.value or b"").decode()


def _bytes(what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _call(f"Get{what}Size", program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    _call(f"Get{what}", program, data)
    return data.raw


def _text(what: str, program: ctypes.c_void_p) -> str:
    return _bytes(what, program).rstrip(b"\0").decode(errors="replace")


def _call(name: str, *arguments: object) -> None:
    code = getattr(_library(), f"nvrtc{name}")(*arguments)
    if code:
        raise NvrtcError(f"nvrtc{name}: {_library().nvrtcGetErrorString(code).decode()}")
