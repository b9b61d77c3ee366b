"""Networks on profkit's own kernels, layer by layer: the hand-tuned baseline of every layer.

The kernel of a spec is the one that the policy (policy.py) takes for it and the thread count. What has no native
kernel is NumPy's, and is named so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array, aligned_empty
from profkit.frameworks.native.operators import ADAPTER
from profkit.frameworks.native.policy import choose_kernel
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.networks.array_training import StepNumbers
from profkit.frameworks.networks.kernels import Kernels, LayerKernel
from profkit.frameworks.networks.plain_layers import LayerBuilder
from profkit.ops.networks.layer import CONCAT, MEAN
from profkit.ops.optimiser_step import OptimiserStep
from profkit.ops.spec import Spec

PIECE = 1 << 16
"""Weights that a thread updates at once: with Adam's moments they stay in the second cache."""


class NativeKernels(Kernels):
    """The compiled registry, with one workspace for all layers: they run one after the other."""

    def __init__(self, threads: int) -> None:
        from profkit import _core

        self._core = _core
        self._threads = threads
        self._workspace = aligned_empty((0,), np.uint8)
        self._scratch = aligned_empty((0,), np.float32)
        self._known: dict[Spec, LayerKernel | None] = {}

    def kernel(self, spec: Spec) -> LayerKernel | None:
        if spec not in self._known:
            self._known[spec] = self._chosen(spec)
        return self._known[spec]

    def _chosen(self, spec: Spec) -> LayerKernel | None:
        """The policy's kernel; its arguments are checked in each call (3 us)."""
        try:
            key = choose_kernel(spec, self._threads, tuned=False).key
        except UnsupportedError:
            return None
        core, params = self._core, spec.params()
        threads = worthwhile_threads(spec, self._threads)
        held_bytes: int = core.workspace_bytes(key, params, threads)
        if held_bytes > self._workspace.nbytes:
            self._workspace = aligned_empty((held_bytes,), np.uint8)
            self._workspace.fill(0)  # pages are touched now, not in the first step
        empty, launch, shape, dtype = np.empty, core.run, spec.output_shape(), spec.numpy_dtype

        def run(*inputs: Array) -> Array:
            output = empty(shape, dtype)
            launch(key, params, inputs, output, self._workspace, threads)
            return output

        return LayerKernel(key, run, held_bytes, uses_threads=threads > 1)

    def optimiser(self, spec: OptimiserStep, numbers: StepNumbers) -> LayerKernel | None:
        """In place, piece by piece: a kernel may not write where it reads, so a piece is copied back from the cache."""
        count, rows = min(spec.count, PIECE * self._threads), spec.output_shape()[0]
        found = self.kernel(spec.replaced(count=count))
        if found is None:
            return None
        launch, key, params = self._core.run, found.implementation, dict(spec.params())
        threads, scratch = worthwhile_threads(spec.replaced(count=count), self._threads), self._room(rows * count)

        def run(w: Array, gradient: Array, *states: Array) -> Any:
            changed = [each.reshape(-1) for each in (w, *states)]
            inputs = [changed[0], gradient.reshape(-1), *changed[1:]]
            params.update(numbers.params)
            for first in range(0, spec.count, count):
                part = slice(first, min(first + count, spec.count))
                params["count"] = part.stop - first
                output = scratch[: rows * params["count"]].reshape(rows, -1)
                launch(key, params, [each[part] for each in inputs], output, self._workspace, threads)
                for target, values in zip(changed, output):
                    target[part] = values
            return (w, *states) if states else w

        return LayerKernel(key, run, found.workspace_bytes + scratch.nbytes, uses_threads=threads > 1)

    def _room(self, count: int) -> Array:
        """Where the pieces of all optimisers go, one after the other."""
        if count > self._scratch.size:
            self._scratch = aligned_empty((count,), np.float32)
        return self._scratch[:count]


BUILDER = LayerBuilder(
    "native",
    ADAPTER,
    lambda conditions: NativeKernels(conditions.threads),
    by_numpy=(CONCAT, MEAN),
    notes=(
        "every operator allocates its result, as frameworks do; workspace is lent from one buffer allocated ahead",
        "convolutions add the bias and apply ReLU inside the kernel",
    ),
    training_note=(
        "what has no native kernel NumPy does, on one thread (implementation numpy): the loss and the gradient of a "
        "bias without ReLU"
    ),
)
