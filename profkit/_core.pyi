"""The compiled module: native kernels, users' compiled candidates, and the machine's measured limits."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

class CpuFeatures(TypedDict):
    simd_compiled: list[str]
    simd_supported: list[str]
    simd_active: str
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int

class BuildInfo(TypedDict):
    compiler: str
    build_type: str
    flags: str
    simd: str
    simd_flags: str
    cuda: bool

class BoundCall:
    """A call whose arguments were checked once; it holds its arrays. Two calls at the same time raise."""

    def __call__(self, output: object = ...) -> None:
        """Fill the bound output, or the given one, which alone is checked then."""

# Arrays are anything with the buffer protocol or DLPack; `params` has every field of the operator's struct in
# csrc/kernels/params.h. Wrong arguments raise KernelError, parameters a kernel does not offer UnsupportedError.

def kernels(op: str) -> list[str]:
    """Keys of the operator's kernels, best known first, the reference last."""

def supports(key: str, params: Mapping[str, int | float]) -> str:
    """Empty when the kernel can run these parameters, otherwise the reason why not."""

def workspace_bytes(key: str, params: Mapping[str, int | float], threads: int) -> int:
    """Scratch memory the kernel needs; `run` and `bind` take it as an array that starts at a multiple of 64."""

def bind(
    key: str,
    params: Mapping[str, int | float],
    inputs: Sequence[object],
    output: object | None,
    workspace: object | None,
    threads: int,
) -> BoundCall:
    """Check a call now, run it later and as often as wanted. Without a workspace one is allocated here;
    without an output each call must be given one."""

def run(
    key: str,
    params: Mapping[str, int | float],
    inputs: Sequence[object],
    output: object,
    workspace: object | None,
    threads: int,
) -> None:
    """`bind` and call at once."""

def bind_candidate(
    address: int, op: str, params: Mapping[str, int | float], inputs: Sequence[object], output: object, threads: int
) -> BoundCall:
    """`bind` for `int f(const profkit_<op>_params*, const void* const* inputs, void* output, int threads)`.

    A result other than 0, or a C++ exception, is a KernelError; std::bad_alloc is a MemoryError.
    """

def run_candidate(
    address: int, op: str, params: Mapping[str, int | float], inputs: Sequence[object], output: object, threads: int
) -> None:
    """`bind_candidate` and call at once."""

def peak_flops(dtype: str, threads: int) -> float:
    """Measured multiply-add rate in flops per second at the active SIMD level; takes about half a second."""

def copy_bandwidth(threads: int) -> float:
    """Measured bytes per second, read plus written, of a copy far larger than the caches."""

def cpu_features() -> CpuFeatures:
    """SIMD levels and caches. KernelError when PROFKIT_SIMD asks for a level this machine cannot run."""

def build_info() -> BuildInfo:
    """How this module was compiled."""

def probe_parallel(threads: int, nested: int = 1, throwing_thread: int = -1) -> list[int]:
    """For tests: how often each part of a parallel call, and of the calls nested in it, ran."""

def probe_duplicate_keys() -> None:
    """For tests: what importing would do if two kernels had one key."""

def probe_unsupported(reason: str) -> None:
    """For tests: what a kernel that refuses its parameters raises."""
