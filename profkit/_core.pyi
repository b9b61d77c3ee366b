"""The compiled module: native kernels, users' candidates, the machine's limits, captures and the tracer."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, SupportsFloat, SupportsIndex, TypedDict, TypeVar, overload

from numpy.typing import NDArray
from typing_extensions import Self

_F = TypeVar("_F", bound=Callable[..., Any])

class CpuFeatures(TypedDict):
    simd_processor: list[str]  # what this processor runs, lowest first, whatever was compiled
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
    nvtx: bool  # ranges of profkit can be shown to other NVTX tools

class BoundCall:
    """A call whose arguments were checked once; it holds its arrays. Two calls at the same time raise."""

    def __call__(self, output: object = ...) -> None:
        """Fill the bound output, or the given one, which alone is checked then."""

# Arrays are anything with the buffer protocol or DLPack; `params` has every field of the operator's struct in
# csrc/kernels/<op>/params.h. Wrong arguments raise KernelError, parameters a kernel does not offer UnsupportedError.

def kernels(op: str) -> list[str]:
    """Keys of the operator's kernels, best known first, the reference last."""

def params_fields(op: str) -> list[tuple[str, str]]:
    """Name and C type of every field of the operator's struct, in order."""

def supports(key: str, params: Mapping[str, int | float]) -> str:
    """Empty when the kernel can run these parameters, otherwise the reason why not."""

class Tunable(TypedDict):
    name: str
    default: int
    candidates: list[int]  # other sizes worth trying

def tunables(key: str, params: Mapping[str, int | float], threads: int) -> list[Tunable]:
    """Sizes of blocks that `bind` takes as `tuning`; empty for a kernel that has none for these parameters."""

def workspace_bytes(key: str, params: Mapping[str, int | float], threads: int, tuning: Mapping[str, int] = ...) -> int:
    """Scratch memory the kernel needs; `run` and `bind` take it as an array that starts at a multiple of 64."""

def packing_kernels(op: str) -> list[str]:
    """Keys of the kernels that take weights packed ahead of their calls."""

def packed_bytes(key: str, params: Mapping[str, int | float], threads: int, tuning: Mapping[str, int] = ...) -> int:
    """Memory of the weights packed ahead; 0 when the kernel packs nothing for these parameters."""

def bind(
    key: str,
    params: Mapping[str, int | float],
    inputs: Sequence[object],
    output: object | None,
    workspace: object | None,
    threads: int,
    tuning: Mapping[str, int] = ...,
    packs_ahead: bool = ...,
) -> BoundCall:
    """Check a call now, run it later and as often as wanted. Without a workspace one is allocated here;
    without an output each call must be given one. `tuning` names sizes of `tunables`; the others follow from the
    caches. `packs_ahead` brings the weights into the kernel's order now, not in each call."""

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

def round_trip_ns(processor: int, other: int) -> float:
    """Nanoseconds in which a cache line goes from one processor to the other and back, the least of several batches.

    0 where threads cannot be placed, or the processors were too busy to measure; at most about 5 ms.
    """

def cpu_features() -> CpuFeatures:
    """SIMD levels and caches. KernelError when PROFKIT_SIMD names a level this machine cannot run."""

def cuda_structs() -> dict[str, tuple[int, list[tuple[str, str, int]], bytes]]:
    """Structs that CUDA kernels take by value: size, fields (name, kind, offset), bytes of the defaults or none."""

def build_info() -> BuildInfo:
    """How this module was compiled."""

def probe_parallel(threads: int, nested: int = 1, throwing_thread: int = -1) -> list[int]:
    """For tests: how often each part of a parallel call, and of the calls nested in it, ran."""

def probe_fork_join(threads: int, rounds: int, gap_ns: int = 0) -> list[int]:
    """Nanoseconds of each of this number of empty jobs; between them the caller is busy for the gap."""

def probe_duplicate_keys() -> None:
    """For tests: what importing would do if two kernels had one key."""

def probe_unsupported(reason: str) -> None:
    """For tests: what a kernel that refuses its parameters raises."""

# --- The tracer (profkit.scope, profkit.mark; profkit.capture.session uses the rest) ---

class scope:  # noqa: N801 - read as a word: `with scope("load"):`
    """A named range of the program: `with scope:`, `async with scope:` or `@scope` on a function."""

    # On a function alone, `@scope`, the function comes back decorated.
    @overload
    def __new__(cls, name: _F) -> _F: ...  # type: ignore[misc]
    @overload
    def __new__(
        cls, name: str, payload: SupportsFloat | SupportsIndex | None = ..., category: str | None = ...
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def payload(self) -> int | float | None: ...
    @property
    def category(self) -> str | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def __call__(self, function: _F, /) -> _F: ...

class scoped_function:  # noqa: N801
    """A plain function that opens a range per call; attributes it lacks are the function's."""

    def __init__(self, scope: scope, function: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def mark(name: str, payload: SupportsFloat | SupportsIndex | None = ..., category: str | None = ...) -> None:
    """Record an instant, when something records."""

class TracerState(TypedDict):
    is_loaded: bool
    is_recording: bool
    is_started_here: bool
    """By tracer_start, and not by the process's environment."""
    path: str
    """Of the running capture; empty when none runs."""
    nvtx: bool
    itt: bool
    allocations: bool
    cupti: bool
    cupti_message: str
    """Why the GPU is not recorded, or what is missing; empty while nothing has used one."""
    dropped: int
    """Records this process lost since the capture began."""
    other_nvtx_tool: bool

def tracer_library_path() -> str:
    """Where libprofkit_inject.so belongs: beside this module. It may be absent."""

def tracer_start(path: bytes, options: str) -> None:
    """Record from now on; options as in PROFKIT_TRACE_OPTIONS. ProfkitError with the reason when it cannot be."""

def tracer_stop() -> None:
    """End the capture: all that was recorded is in the file then."""

def tracer_flush() -> None:
    """All that was recorded so far is in the file when this returns."""

def tracer_state() -> TracerState:
    """What the tracer does in this process; attaches to the library if it is there."""

def demangle_names(names: list[str]) -> list[str]:
    """C++ names as people write them; those that are none, or longer than 16 KiB, stay. Loads the tracer's library."""

class CuptiFound(TypedDict):
    library: str
    """Path; empty when there is none."""
    version: int
    """As cuptiGetVersion gives it: 19 to 99 for CUDA 12, 130000 and more since CUDA 13."""
    is_usable: bool
    reason: str
    """Why it is not usable, and what to do."""

def tracer_find_cupti(wheels: str) -> CuptiFound:
    """What the CUPTI door would find in this process. `wheels` are paths with a colon between them."""

# --- Attribution (profkit/attribution): passes over the ranges of a capture ---------------------------------------

class RangeTable:
    """Ranges as the reader leaves them (grouped by thread, in order of begin), checked; wrong columns: ValueError.

    Groups are int32 numbers from 0 to `groups` - 1 per row, -1 for rows that are left out.
    """

    def __init__(
        self,
        kind: NDArray[Any],
        is_open: NDArray[Any],
        thread: NDArray[Any],
        parent: NDArray[Any],
        start_ns: NDArray[Any],
        end_ns: NDArray[Any],
        threads: int,
    ) -> None: ...
    def own_times(self) -> NDArray[Any]:
        """Duration without the direct children of kind range; 0 for spans and marks."""

    def counts_inside(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ranges and spans recorded directly inside each row, and at any depth."""

    def paths(self, title: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Path per row; and for each path the path above it and its last title."""

    def outermost(self, group: NDArray[Any], groups: int) -> NDArray[Any]:
        """1 where no range around this one is of the same group."""

    def group_times(self, own_ns: NDArray[Any], group: NDArray[Any], groups: int) -> dict[str, NDArray[Any]]:
        """calls, span_calls, open_calls, inclusive_ns (union per thread), exclusive_ns, and of the durations
        min_ns, mean_ns, median_ns, max_ns."""

    def sum_by_group(
        self, values: NDArray[Any], is_chosen: NDArray[Any], group: NDArray[Any], groups: int
    ) -> NDArray[Any]:
        """Sums over the chosen rows of each group."""

    def max_by_group(self, values: NDArray[Any], group: NDArray[Any], groups: int) -> NDArray[Any]:
        """The largest value of each group, at least 0."""

    def memory(
        self,
        range: NDArray[Any],
        time_ns: NDArray[Any],
        bytes: NDArray[Any],
        free_time_ns: NDArray[Any],
        free_range: NDArray[Any],
        is_part: NDArray[Any],
    ) -> dict[str, Any]:
        """Per range: own_calls, own_bytes, calls, bytes, live_bytes, peak_bytes, freed_elsewhere_bytes; and
        total_peak_bytes."""

def share_steps(
    level: NDArray[Any],
    step: NDArray[Any],
    thread: NDArray[Any],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
    threads: int,
    step_start_ns: NDArray[Any],
    step_end_ns: NDArray[Any],
) -> dict[str, NDArray[Any]]:
    """The wall clock of a network's steps: wall_ns of each span (operators and primitives), and of each step the
    runtime_ns, layer_ns and empty_ns in which no operator ran. All of a step adds up to its duration exactly.

    Columns of Ranges and Steps (profkit/capture/schema.py); csrc/captures/attribute/step_shares.h has the rules.
    ValueError for wrong columns.
    """

# --- Captures ------------------------------------------------------------------------------------------------------

class CaptureProcess(TypedDict):
    description: str  # JSON
    start_ns: int
    end_ns: int
    has_ended: bool
    empty_range_ns: float
    clock_read_ns: float
    cross_core_skew_ns: float
    clock_drift_ppm: float
    clock_error_ns: float
    frees_of_unknown: int
    device: dict[str, int]  # counts of what a GPU did: entries, dropped_by_cupti, ..., clock_error_ns

class CaptureContent(TypedDict):
    created_unix_ns: int
    counters: dict[str, int]
    warnings: list[str]
    strings: list[str]
    processes: list[CaptureProcess]
    # Columns by the names of profkit/capture/schema.py.
    threads: dict[str, NDArray[Any]]
    ranges: dict[str, NDArray[Any]]
    allocations: dict[str, NDArray[Any]]
    samples: dict[str, NDArray[Any]]
    # activities, calls, memory, pools, overhead, devices: columns of csrc/captures/read/device/columns.h.
    device: dict[str, dict[str, NDArray[Any]]]

def read_capture(path: str, max_rows: int = ...) -> CaptureContent:
    """Decode a capture file. CaptureError for other files; damage inside it is skipped and named in `warnings`, as are
    ranges and allocations beyond `max_rows` each (at most and by default 2^31 - 2)."""

# --- Trace files (profkit/rendering/traces/content.py makes their content) --------------------------------------------

def lay_out(
    kind: NDArray[Any],
    thread: NDArray[Any],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
    parent: NDArray[Any],
    threads: int,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Lane and depth of each range, so that lanes nest strictly; and the number of extra lanes of each thread.

    Lane 0 is the thread itself. Rows as the reader leaves them: grouped by thread, in order of begin.
    """

def write_chrome(content: object, write: Callable[[memoryview], object]) -> None:
    """A TraceContent as Chrome JSON, in pieces of about 1 MiB. ValueError when its columns do not fit together."""

def write_perfetto(content: object, write: Callable[[memoryview], object]) -> None:
    """A TraceContent as a Perfetto protobuf trace, likewise."""

def serve_calls(read_fd: int, write_fd: int, side: object) -> None:
    """Answer a parent's requests until it closes the pipe, and end the process. `side` makes calls and words of errors;
    calls are timed and checked by native code alone."""
