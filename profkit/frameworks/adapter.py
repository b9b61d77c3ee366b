"""The contract between measurement and a framework: what exists, what it supports, and a callable to time.

An adapter is one file here with a module-level ADAPTER. The parent process asks `is_available`,
`implementations` and `supports`, which must not import the framework; the worker process calls `start`
and `prepare`. This side also runs under foreign interpreters: standard library and NumPy 1.23 only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from profkit.errors import UnavailableError
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec

Array = NDArray[Any]


@dataclass(frozen=True)
class Implementation:
    """One way to run one operator."""

    key: str
    adapter: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that must be set before the worker's interpreter starts (KERAS_BACKEND, ...)."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What else the adapter needs to find it again in the worker (a candidate's file, ...). `rounding` is read by
    measurement too: the format to which operands are rounded where it is coarser than the spec's (tf32); `forms` by
    selection: see below."""
    is_default: bool = True
    """Whether it is measured when no row is named; of native kernels the policy chooses among these."""

    @property
    def op(self) -> str:
        return parts_of(self.key).op

    @property
    def framework(self) -> str:
        return parts_of(self.key).framework

    @property
    def device(self) -> str:
        return parts_of(self.key).device

    @property
    def rounding(self) -> str:
        """The coarser format in which it multiplies, which its tolerance allows for and its row says; usually none."""
        return self.options.get("rounding", "")

    @property
    def forms(self) -> tuple[str, ...]:
        """Last words of the key, where they say how the same kernel is given its data (nhwc, packed).

        Such a row is measured only where a pattern has these words too: `--only 'native/*/packed'`.
        """
        return tuple(self.options.get("forms", "").split())

    @property
    def variant(self) -> str:
        return parts_of(self.key).variant


@dataclass(frozen=True)
class Availability:
    """Whether a framework can be used here; if not, why, and the line to type."""

    available: bool
    reason: str = ""
    install: str = ""

    @property
    def text(self) -> str:
        """Why it is not available, and the line to type."""
        return "; ".join(filter(None, (self.reason, self.install)))


@dataclass
class Prepared:
    """A ready call: everything that a framework does once has been done, nothing of it is timed."""

    call: Callable[[], Any]
    """Runs the operator to completion (asynchronous frameworks wait inside) and returns their output."""
    to_numpy: Callable[[Any], Array] = np.asarray
    """Turns what `call` returned into the spec's output shape and layout; never timed."""
    output: str = "fresh"
    """`fresh` when every call allocates its output, `reused` when it writes into the same memory."""
    layout: str = ""
    """Layout in which this implementation holds its images when it is not the spec's own, e.g. NHWC."""
    held_bytes: int = 0
    """Workspace allocated ahead of the call; counted as memory of the call."""
    note: str = ""
    """Anything a reader of the row must know (a separate pad operator inside the call, ...)."""
    device: DeviceCall | None = None
    """How the same call is made on a device without waiting; None where only `call` can be timed, by the wall clock."""


@dataclass(frozen=True)
class DeviceCall:
    """A call on a CUDA device that returns while the device still works, so that events on its stream can time it."""

    enqueue: Callable[[], Any]
    """Puts the operator's work on the stream; what it returns holds the output until the next call."""
    stream: int = 0
    """The stream's handle (cudaStream_t) as a number: the framework's own current stream."""
    ordinal: int = 0
    """Which device."""
    peak_bytes: Callable[[Callable[[], Any]], int] | None = None
    """Makes one call and gives the device memory that it took at most, output included, by the framework's own
    allocator; None: free memory before and after is compared."""


@dataclass(frozen=True)
class Conditions:
    """How the implementation is to run."""

    threads: int = 1
    output: str = "fresh"
    """`fresh`, or `reused` where an implementation can; one that cannot stays fresh and says so."""
    tuned: bool = True
    """Whether native kernels take what profkit.tune chose for this machine."""


class Adapter(Protocol):
    name: str
    """Second part of the key."""

    def is_available(self) -> Availability:
        """A cheap check, without importing the framework."""
        ...

    def implementations(self, op: str) -> Sequence[Implementation]:
        """All ways this framework has for an operator, best known first; empty when it has none."""
        ...

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """Empty when the spec can run, otherwise the reason why not."""
        ...

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        """In the worker: import, set threads; returns version and build facts; raises UnavailableError."""
        ...

    def prepare(
        self, implementation: Implementation, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
    ) -> Prepared:
        """In the worker: everything before the timed call."""
        ...


def find_module(module: str, extra: str) -> Availability:
    """Availability by looking for a module on the path; `extra` is the pip extra that brings it."""
    if importlib.util.find_spec(module) is not None:
        return Availability(True)
    return Availability(False, f"{module} is not installed", f'pip install "profkit[{extra}]"')


def require(here: Availability) -> None:
    """UnavailableError with the reason and the line to type, unless it is available."""
    if not here.available:
        raise UnavailableError(here.text)


def waiting(enqueue: Callable[[], Any], wait: Callable[[], Any]) -> Callable[[], Any]:
    """The call of a device that returns when its work is done."""

    def call() -> Any:
        result = enqueue()
        wait()
        return result

    return call


def aligned_empty(shape: Sequence[int], dtype: Any, alignment: int = 64) -> Array:
    """An uninitialised array whose data starts on a cache-line boundary."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + alignment, dtype=np.uint8)
    offset = -raw.ctypes.data % alignment
    array: Array = raw[offset : offset + size].view(dtype).reshape(shape)
    return array
