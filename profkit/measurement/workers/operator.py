"""The worker's side: runs one implementation and answers requests. Standard library and NumPy 1.23 only.

Input: requests start, prepare, warm_up, sample, recheck, kernel_time. Output: replies with times in nanoseconds,
or an error with the status of its row. Where profkit is compiled for the interpreter, native code
(csrc/bindings/calls) reads the requests, and times and checks calls on the CPU; the rest is answered here.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.errors import (
    CompileError,
    LoadError,
    ProfkitError,
    UnavailableError,
    UnsupportedError,
    WrongResultError,
)
from profkit.frameworks import is_candidate, load_adapter
from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared, aligned_empty
from profkit.measurement.call_clock import CallClock, call_clock_of
from profkit.measurement.workers import protocol
from profkit.measurement.workers.protocol import Message
from profkit.ops import spec_from_dict
from profkit.ops.dtypes import for_file, from_file
from profkit.ops.spec import Spec

OUT_OF_MEMORY_WORDS = (
    "out of memory",
    "out_of_memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "oom when",
)

# CUDA's own, which every framework passes on: there is no device, or it cannot run what was compiled.
NO_DEVICE_WORDS = (
    "no kernel image is available",
    "no_binary_for_gpu",
    "device kernel image is invalid",
    "unsupported toolchain",
    "driver version is insufficient",
    "no cuda-capable device",
)


STATUSES: Mapping[type[ProfkitError], str] = {
    UnavailableError: "unavailable",
    UnsupportedError: "unsupported",
    WrongResultError: "wrong",
    CompileError: "not compiled",
    LoadError: "not loaded",
}
"""Of rows that an error of profkit ends; other errors are a crash."""
NATIVE_FIELDS = ("secret", "seed", "result_hex", "spoils", "pokes")
"""Of requests, for native code only; of the secret there are zeros left."""


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests about one operator until the parent closes the pipe."""
    try:
        from profkit import _core
    except ImportError:  # another interpreter
        answer_requests(Worker(), read_fd, write_fd)
        return
    close_in_children(read_fd, write_fd)
    # Bound before any framework or candidate is imported: what they change in Python reaches no time and no check.
    _core.serve_calls(read_fd, write_fd, CallSide(Worker(is_served=True)))


class CallSide:
    """Python's part for native code: an answer with the call to hold, the message of an error, a result's rejection."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._starts_framework = False

    def answer(self, line: bytes) -> tuple[bytes, tuple[Any, ...] | None]:
        """The reply to a request as JSON, and after `prepare` the call on the CPU."""
        request = protocol.parse(line)
        name = request.pop("do")
        for field in ("number", *NATIVE_FIELDS):
            request.pop(field, None)
        self._starts_framework = name == "start"
        reply = getattr(self._worker, "do_" + name)(**request)
        return json.dumps(reply).encode(), self._worker.held() if name == "prepare" else None

    def describe(self, error: BaseException) -> bytes:
        """The reply that says what an error was."""
        starts_framework = self._starts_framework and not self._worker.is_candidate
        return json.dumps({"error": describe(error, starts_framework=starts_framework)}).encode()

    def refuse(self, result: Any) -> None:
        """Raise what is wrong with a result."""
        if self._worker.prepared is not None and self._worker.spec is not None:
            checked_result(self._worker.prepared.to_numpy(result), self._worker.spec)


def answer_requests(worker: Any, read_fd: int, write_fd: int) -> None:
    """Call `worker.do_<request>` for every request until the parent closes the pipe; ends the process."""
    me = os.getpid()
    close_in_children(read_fd, write_fd)
    with os.fdopen(read_fd, "rb", closefd=False) as requests, os.fdopen(write_fd, "wb", closefd=False) as replies:
        while (request := protocol.receive(requests)) is not None:
            begin = time.monotonic_ns()
            number, name = request.pop("number"), request.pop("do")
            try:
                reply = getattr(worker, "do_" + name)(**request)
            except BaseException as error:
                reply = {"error": describe(error, starts_framework=name == "start" and not worker.is_candidate)}
            if os.getpid() != me:
                os._exit(1)  # a forked child that came back out of the kernel: it is not the worker
            protocol.send(replies, {"number": number, **reply, "spent_ns": time.monotonic_ns() - begin})
    # Frameworks' own exit handlers may hang or crash, and nothing is left to save.
    os._exit(0)


def close_in_children(*descriptors: int) -> None:
    """A child that a kernel forks must not hold the pipes open, or the parent could not see this process die."""
    open_ones = list(descriptors)

    def close() -> None:
        while open_ones:  # once: in a child's own child the numbers may be those of other files
            os.close(open_ones.pop())

    os.register_at_fork(after_in_child=close)


def describe(error: BaseException, starts_framework: bool = False) -> dict[str, str]:
    """Status and reason of the row that this error ends."""
    reason = f"{type(error).__name__}: {error}".strip()
    if isinstance(error, ProfkitError) and not (isinstance(error, LoadError) and lacks_device(reason)):
        status = next((word for kind, word in STATUSES.items() if isinstance(error, kind)), "crashed")
        return {"status": status, "reason": str(error)}
    if isinstance(error, ImportError) and starts_framework:
        return {"status": "unavailable", "reason": reason}
    if lacks_device(reason):
        return {"status": "unavailable", "reason": reason}
    names = ("ResourceExhaustedError", "OutOfMemoryError")
    words = OUT_OF_MEMORY_WORDS
    if isinstance(error, MemoryError) or type(error).__name__ in names or any(w in reason.lower() for w in words):
        return {"status": "oom", "reason": reason}
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({os.path.basename(last[0].filename)}:{last[0].lineno})" if last else ""
    return {"status": "crashed", "reason": reason + where}


def lacks_device(reason: str) -> bool:
    """Whether these are CUDA's words for a device that is not there."""
    return any(words in reason.lower() for words in NO_DEVICE_WORDS)


class Worker:
    """State between requests: the framework that was started and the call that was prepared."""

    def __init__(self, is_served: bool = False) -> None:
        self.is_served = is_served
        """Native code holds the calls on the CPU; a candidate's first call is made there as well."""
        self.implementation = Implementation("", "")
        self.conditions = Conditions()
        self.prepared: Prepared | None = None
        self.spec: Spec | None = None
        self.inputs: dict[str, Array] = {}
        self.flush_buffer: Array | None = None
        self.clock: CallClock | None = None
        """Of a call on a device."""

    @property
    def is_candidate(self) -> bool:
        """Whether it runs a user's own kernel, whose missing import is the kernel's fault."""
        return is_candidate(self.implementation.key)

    def do_start(self, key: str, adapter: str, options: Mapping[str, str], conditions: Message) -> Message:
        """Import the framework and set its threads."""
        self.implementation = Implementation(key, adapter, options=options)
        self.conditions = Conditions(**conditions)
        return {"versions": load_adapter(adapter).start(self.implementation, self.conditions)}

    def do_prepare(self, spec: dict[str, Any], output: str, folder: str, result_path: str) -> Message:
        """Set the call up and run it for the first time; its result goes to `result_path` for checking."""
        self.prepared = self.clock = None
        self.inputs = {}
        gc.unfreeze()
        gc.collect()
        self.spec = spec_from_dict(spec)
        dtype = self.spec.numpy_dtype
        self.inputs = {
            name: load_aligned(protocol.input_path(folder, name), dtype) for name in self.spec.input_shapes()
        }
        adapter = load_adapter(self.implementation.adapter)
        conditions = replace(self.conditions, output=output)
        prepared = adapter.prepare(self.implementation, self.spec, self.inputs, conditions)
        if self.is_checked_natively:
            self.prepared = prepared
            return {"layout": prepared.layout, "note": prepared.note, "timing": ""}
        begin = time.perf_counter_ns()
        result = prepared.call()
        first_call_ns = time.perf_counter_ns() - begin
        save_result(result_path, prepared.to_numpy(result), self.spec)
        self.prepared = prepared
        self.clock = call_clock_of(prepared, self.implementation.device)
        # A framework's import leaves a million Python objects; collecting them again and again would take longer
        # than the samples and sweep the caches.
        gc.collect()
        gc.freeze()
        return {
            "first_call_ns": first_call_ns,
            "output": prepared.output,
            "layout": prepared.layout,
            "note": prepared.note,
            "timing": self.clock.timing if self.clock else "",
        }

    @property
    def is_checked_natively(self) -> bool:
        """Whether calls and results are those of a user's code, on the CPU, in native hands."""
        return self.is_served and self.is_candidate and self.implementation.device == "cpu"

    def held(self) -> tuple[Any, ...] | None:
        """Held by native code after `prepare`: csrc/bindings/calls/server.cpp; None for a call on a device."""
        if self.prepared is None or self.spec is None or self.implementation.device != "cpu":
            return None
        dtype = self.spec.numpy_dtype
        return (
            self.prepared.call,
            self.is_checked_natively,
            tuple(self.inputs.values()),
            self.spec.output_shape(),
            dtype.num if dtype.isbuiltin == 1 else -1,
            dtype.itemsize,
            self.prepared.held_bytes,
            self.prepared.output == "fresh",
        )

    def do_recheck(self, result_path: str) -> Message:
        """One more call after all samples, to show that what was timed was right to the end."""
        if self.prepared is None or self.spec is None:
            raise RuntimeError("a recheck was requested before prepare")
        # The next output is likely to get the memory of the last: a call that writes nothing would find it right.
        fill_with_nan(self.prepared.call(), self.spec)
        save_result(result_path, self.prepared.to_numpy(self.prepared.call()), self.spec)
        return {}

    def do_warm_up(self, least_calls: int, least_ns: int) -> Message:
        """Measure one call's memory, then call until both bounds are met; a slow call counts as its own warm-up.

        Memory comes first because warm-up then restores what measuring it gave back to the system.
        """
        call = self._call()
        begin = time.perf_counter_ns()
        peak_bytes = self._peak_bytes(call)
        samples = [time.perf_counter_ns() - begin]
        if samples[0] < 10 * least_ns:
            samples = []
        spent_ns = sum(samples)
        while not samples or spent_ns < (10 * least_ns if len(samples) < least_calls else least_ns):
            samples.append(timed(call, 1))
            spent_ns += samples[-1]
        limits = self.clock.limits(self.spec) if self.clock and self.spec else {}
        return {"samples_ns": samples, "peak_bytes": peak_bytes, **limits}

    def do_sample(self, count: int, calls: int, warm_calls: int, flush_bytes: int) -> Message:
        """Take `count` samples of `calls` calls each, after warm-up calls or, cold, after a cache flush each."""
        call = self._call()
        samples: list[float] = []
        gc.disable()
        try:
            if self.clock is not None:
                return self.clock.sample(count, calls, warm_calls, bool(flush_bytes))
            for _ in range(warm_calls):
                call()
            faults = 0
            for _ in range(count):
                if flush_bytes:
                    self._flush_caches(flush_bytes)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                samples.append(timed(call, calls) / calls)
                faults += resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        finally:
            gc.enable()
        return {"samples_ns": samples, "page_faults": faults / (count * calls)}

    def do_kernel_time(self, path: str) -> Message:
        """CUPTI's time of the kernels of one call, or why there is none; the row has its samples already."""
        from profkit.measurement.device.kernel_time import kernel_ns_per_call

        try:
            return {"kernel_ns": kernel_ns_per_call(self._call(), path), "trouble": ""}
        except (ProfkitError, ImportError) as error:  # a foreign interpreter has no compiled core
            return {"kernel_ns": None, "trouble": str(error)}

    def _peak_bytes(self, call: Callable[[], Any]) -> int | None:
        """Peak bytes above inputs and output during one call; None where the system does not report it."""
        if self.spec is None or self.prepared is None:
            raise RuntimeError("memory was requested before prepare")
        output_bytes = self.spec.output_bytes() if self.prepared.output == "fresh" else 0
        try:
            rise = resident_rise(call) if self.clock is None else self.clock.peak_bytes()
        except (OSError, UnavailableError):
            return None  # not Linux, or a device that cannot be queried
        return max(0, rise - output_bytes) + self.prepared.held_bytes

    def _call(self) -> Callable[[], Any]:
        if self.prepared is None:
            raise RuntimeError("a call was requested before prepare")
        return self.prepared.call

    def _flush_caches(self, size: int) -> None:
        """Push everything out of the caches by writing a buffer larger than the last level."""
        if self.flush_buffer is None or self.flush_buffer.nbytes != size:
            self.flush_buffer = np.zeros(size, dtype=np.uint8)
        self.flush_buffer += 1


def timed(call: Callable[[], Any], calls: int) -> int:
    """Nanoseconds of `calls` calls; each result is dropped at once, as in a loop that uses it and continues."""
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return time.perf_counter_ns() - begin


def fill_with_nan(result: Any, spec: Spec) -> None:
    """Fill a result that is an array of the host with NaN; frameworks' own tensors need not be writable."""
    if isinstance(result, np.ndarray) and result.dtype == spec.numpy_dtype and result.flags.writeable:
        result.fill(np.nan)


def checked_result(result: Any, spec: Spec) -> Array:
    """The result as an array; another type or shape is wrong with any values."""
    array = np.asarray(result)
    for name, found, expected in (
        ("dtype", array.dtype, spec.numpy_dtype),
        ("shape", array.shape, spec.output_shape()),
    ):
        if found != expected:
            raise WrongResultError(f"{name} {found}, expected {expected}")
    return array


def save_result(path: str, result: Any, spec: Spec) -> None:
    """Leave a result for the parent to check."""
    np.save(path, for_file(checked_result(result, spec)))


def load_aligned(path: str, dtype: np.dtype[Any]) -> Array:
    """A private copy of an array file, starting on a page so that alignment is the same in every worker."""
    source = np.load(path, mmap_mode="r")
    array = aligned_empty(source.shape, source.dtype, alignment=4096)
    array[...] = source
    return from_file(array, dtype)


def resident_rise(call: Callable[[], Any]) -> int:
    """By how many bytes the process's resident memory rises at most during one call (Linux)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        # Memory that the C library kept from earlier calls would hide what this call needs.
        trim(0)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = status_bytes("VmRSS")
    result = call()
    peak = status_bytes("VmHWM")
    del result
    return peak - before


def status_bytes(name: str) -> int:
    """A size from /proc/self/status, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")
