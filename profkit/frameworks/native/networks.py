"""Networks on profkit's own kernels, layer by layer: the hand-tuned baseline of every layer.

The kernel of a layer is the one that the policy (policy.py) takes for its spec and the thread count. Gradients
without a native kernel (pooling, normalisation, ReLU, bias, loss) and SGD are NumPy's, and are named so.
"""

from __future__ import annotations

import numpy as np

from profkit.frameworks.adapter import Array, aligned_empty
from profkit.frameworks.native.operators import ADAPTER
from profkit.frameworks.native.policy import choose_kernel
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.networks.plain_layers import LayerBuilder, LayerKernel
from profkit.ops.spec import Spec


class NativeKernels:
    """The compiled registry, with one workspace for all layers: they run one after the other."""

    xp = np
    fuses_bias_relu = True

    def __init__(self, threads: int) -> None:
        from profkit import _core

        self._core = _core
        self._threads = threads
        self._workspace = aligned_empty((0,), np.uint8)

    def kernel(self, spec: Spec) -> LayerKernel:
        """The policy's kernel; its arguments are checked in each call (3 us)."""
        core, params = self._core, spec.params()
        threads = worthwhile_threads(spec, self._threads)
        key = choose_kernel(spec, self._threads, tuned=False).key
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


BUILDER = LayerBuilder(
    "native",
    ADAPTER,
    lambda conditions: NativeKernels(conditions.threads),
    notes=(
        "every operator allocates its result, as frameworks do; workspace is lent from one buffer allocated ahead",
        "convolutions add the bias and apply ReLU inside the kernel",
    ),
    training_note=(
        "gradients of pooling, normalisation, ReLU, bias and loss, and SGD have no native kernel: NumPy does them, "
        "on one thread (implementation numpy)"
    ),
)
