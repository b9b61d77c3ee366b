"""The worker's side of the search for the largest batch: a few steps, and what they took. Standard library and NumPy.

The network's arrays are views of one row each: only what the framework makes of them takes memory.
"""

from __future__ import annotations

import contextlib
import gc
import math
import resource
import time
from collections.abc import Iterator, Mapping

import numpy as np

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.measurement.workers.operator import answer_requests
from profkit.measurement.workers.protocol import Message
from profkit.ops.networks import Network, Training, network_from_dict
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.network import CROSS_ENTROPY
from profkit.ops.spec import Array

RESET_PEAK = "5"
"""To /proc/self/clear_refs: the peak of resident memory begins anew."""


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests until the parent closes the pipe."""
    answer_requests(MemoryWorker(), read_fd, write_fd)


class MemoryWorker:
    """`start` comes first, then `run`, once: a second one would find what the first left."""

    is_candidate = False

    def __init__(self) -> None:
        self._framework = ""
        self._conditions = NetworkConditions()
        self._built: BuiltNetwork | None = None
        self._steps_begin_ns = 0
        self._has_peak = False

    def do_start(self, framework: str, threads: int, mode: str, is_training: bool, training: Message) -> Message:
        """Import the framework and its recorder; what is resident before there is a model."""
        self._framework = framework
        self._conditions = NetworkConditions(threads, mode, is_training, Training(**training))
        builder = load_builder(framework)
        versions = builder.start(self._conditions)
        builder.record_allocations(lambda: None)
        gc.collect()
        return {"versions": versions, "resident_bytes": resident_bytes("VmRSS") + resident_bytes("VmSwap")}

    def do_run(self, network: Message, steps: int, data_bytes: int, path: str) -> Message:
        """Build it and run so many steps; the allocations go to `path`."""
        limit_data(data_bytes)
        made = network_from_dict(network)
        allocations = load_builder(self._framework).record_allocations(lambda: self._run(made, steps))
        reply = {"peak_resident_bytes": resident_bytes("VmHWM") if self._has_peak else 0}
        if allocations is None:
            return {**reply, "names": []}
        begin = np.searchsorted(allocations.time_ns, self._steps_begin_ns)
        np.savez(path, bytes=allocations.bytes, block=allocations.block, where=allocations.where, begin=begin)
        return {**reply, "names": list(allocations.names)}

    def _run(self, network: Network, steps: int) -> None:
        weights = RowWeights(network.weight_shapes())
        self._built = built = load_builder(self._framework).build(network, weights, self._conditions)
        gc.collect()
        self._has_peak = reset_peak()
        self._steps_begin_ns = time.perf_counter_ns()
        batch = built.put(*batch_of(network))
        run = built.train if self._conditions.is_training else built.infer
        for _ in range(steps):
            built.to_numpy(run(batch))


class RowWeights(Mapping[str, Array]):
    """Views of one row, by name."""

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._shapes = shapes

    def __getitem__(self, name: str) -> Array:
        shape = self._shapes[name]
        if name.endswith((".scale", ".variance")):
            row = np.ones(shape[-1], np.float32)
        else:
            spread = 1.0 / math.sqrt(math.prod(shape[:-1]))
            row = (np.random.default_rng(0).standard_normal(shape[-1]) * spread).astype(np.float32)
        return np.broadcast_to(row, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def batch_of(network: Network) -> tuple[Array, Array]:
    """The same input and label as often as the batch is large."""
    shape, outputs = network.input_shape(), network.output_shape()
    generator = np.random.default_rng(0)
    if network.vocabulary:
        one: Array = generator.integers(0, network.vocabulary, shape[1:])
    else:
        one = generator.standard_normal(shape[1:]).astype(np.float32)
    is_class = network.loss == CROSS_ENTROPY
    label = np.zeros((), np.int64) if is_class else np.zeros(outputs[1:], np.float32)
    return np.broadcast_to(one, shape), np.broadcast_to(label, (shape[0], *label.shape))


def resident_bytes(name: str) -> int:
    """VmRSS, VmHWM (its peak) or VmSwap of this process; 0 where the system does not tell."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


def reset_peak() -> bool:
    """Whether VmHWM counts from now on; a watcher stands in elsewhere."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write(RESET_PEAK)
    except OSError:
        return False
    return True


def limit_data(more_bytes: int) -> None:
    """The kernel refuses data beyond what there is now and so much more, whoever watches and however late."""
    now = resident_bytes("VmData")
    if now and more_bytes > 0:
        resource.setrlimit(resource.RLIMIT_DATA, (now + more_bytes,) * 2)
