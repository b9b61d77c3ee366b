"""A library of kernels as networks need it: a spec in, the call for it out, where the library has one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.frameworks.framework import FillingFramework
from profkit.frameworks.networks.array_training import StepNumbers
from profkit.ops.optimiser_step import OptimiserStep
from profkit.ops.spec import Spec


@dataclass(frozen=True)
class LayerKernel:
    """How a library runs one spec: the call takes the inputs in the spec's order and returns a fresh output."""

    implementation: str
    run: Callable[..., Any]
    workspace_bytes: int = 0
    """Scratch memory that was allocated ahead and is lent to the call."""
    uses_threads: bool = True


class Kernels:
    """A library of kernels, and the array module that does what it lacks."""

    xp: Any = np
    """NumPy or CuPy."""

    def kernel(self, spec: Spec) -> LayerKernel | None:
        """None where it has none."""
        raise NotImplementedError

    def optimiser(self, spec: OptimiserStep, numbers: StepNumbers) -> LayerKernel | None:
        """A call (w, gradient, *states) that gives the new ones, by the rates of its step, if there is a kernel."""
        return None


@dataclass
class FillingKernels(Kernels):
    """The operators of an adapter that prepare a function which fills an output.

    Its set-up (views, buffers) needs the arrays, which are new in each step: so it is part of the call.
    """

    adapter: FillingFramework
    threads: int
    threaded: Collection[str]
    composed: Callable[[Spec], bool] = lambda spec: False
    """Specs for which the adapter only evaluates a formula: array expressions do that without a copy."""

    def kernel(self, spec: Spec) -> LayerKernel | None:
        prepare = self.adapter.prepares.get(spec.op)
        if (
            prepare is None
            or self.composed(spec)
            or self.adapter.supports(self.adapter.implementations(spec.op)[0], spec)
        ):
            return None
        names, threads = list(spec.input_shapes()), self.threads
        empty, shape, dtype, fills = np.empty, spec.output_shape(), spec.numpy_dtype, prepare

        def run(*inputs: Any) -> Any:
            output = empty(shape, dtype)
            fill, _ = fills(spec, dict(zip(names, inputs)), threads)
            fill(output)
            return output

        return LayerKernel(f"{spec.op}/{self.adapter.name}/cpu", run, uses_threads=spec.op in self.threaded)
