"""The compiled CUDA module: kernels, device memory, streams and a timer. It loads without a driver; whatever needs one
then raises UnavailableError with the driver's own reason. Device memory that is missing is a MemoryError, a launch or a
device that failed a KernelError, after which this process can use the device no more."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

class BuildInfo(TypedDict):
    architectures: str  # "75-real 80-real 120-virtual", as CMake takes them
    compiler: str
    runtime_version: int  # 13000 for 13.0

class DeviceInfo(TypedDict):
    index: int
    name: str
    pci_bus_id: str
    capability: int  # 90 for 9.0
    multiprocessors: int
    shared_bytes_per_block: int
    l2_bytes: int
    memory_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    has_ecc: bool

Params = Mapping[str, int | float]

def build_info() -> BuildInfo: ...
def driver_version() -> int:
    """As runtime_version; 0 without a driver."""

def error_text(code: int) -> str:
    """The runtime's words for a cudaError_t: `out of memory (cudaErrorMemoryAllocation)`."""

def devices() -> list[DeviceInfo]: ...
def use_device(index: int) -> None:
    """For calls of this thread."""

def memory_info() -> tuple[int, int]:
    """Free and total bytes of the current device."""

def synchronize(stream: int) -> None:
    """Wait for everything on the stream; a kernel that failed shows here."""

class DeviceMemory:
    """Memory of the current device, freed with the object. Copies wait until they are done."""

    def __init__(self, bytes: int) -> None: ...
    @property
    def pointer(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def upload(self, source: object) -> None: ...
    def download(self, target: object) -> None: ...
    def fill(self, byte: int) -> None: ...

class Stream:
    """A stream that waits for no other."""

    @property
    def handle(self) -> int: ...

class DeviceTimer:
    """Times what is enqueued between `begin` and `end` by the device's clock, csrc/runtime/cuda_timer.h."""

    def __init__(self, stream: int, give_up_after_s: float) -> None: ...
    def hold(self) -> None: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def release(self) -> None: ...
    def finish(self) -> tuple[float, bool]:
        """Nanoseconds, and whether the hold gave up."""

    def flush(self, bytes: int) -> None: ...

class CudaBoundCall:
    """A call whose arguments were checked once; it holds its memory. Enqueues, and waits for nothing."""

    def __call__(self) -> None: ...

# `device` describes another device than the current one: a DeviceInfo, or the fields of it that matter to launches.

def kernels(op: str) -> list[str]:
    """Keys of the operator's kernels, best known first, the simplest last."""

def supports(key: str, params: Params, device: Mapping[str, Any] | None = None) -> str:
    """Empty when the kernel can run these parameters, otherwise the reason why not."""

def configurations(key: str, params: Params, device: Mapping[str, Any] | None = None) -> list[str]:
    """What a tuner may choose from; empty when there is one way only."""

def policy(key: str, params: Params, device: Mapping[str, Any] | None = None) -> int:
    """The configuration that is taken when none is named; -1 when there is one way only."""

def workspace_bytes(
    key: str, params: Params, configuration: int = -1, device: Mapping[str, Any] | None = None
) -> int: ...
def bind(
    key: str,
    params: Params,
    inputs: Sequence[DeviceMemory],
    output: DeviceMemory,
    workspace: DeviceMemory | None,
    stream: int,
    configuration: int = -1,
) -> CudaBoundCall:
    """Check a call now, enqueue it later and as often as wanted."""
