"""How kernel tests call a registry kernel: guarded, dirty memory in; a checked result out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit import _core
from profkit.backends.adapter import aligned_empty
from profkit.backends.native_params import native_params
from profkit.ops.spec import Spec

OPERATORS = ("conv2d", "matmul", "pool2d", "lrn", "bias_relu", "softmax")
GUARD_BYTES = 256
GUARD = 0xA5


def all_keys() -> list[str]:
    """Every kernel of the registry."""
    return [key for op in OPERATORS for key in _core.kernels(op)]


def describe(spec: Spec) -> str:
    """A test id: the fields that differ from the defaults."""
    default = type(spec)().words()
    return "-".join(f"{name}={word}" for name, word in spec.words().items() if word != default[name]) or "default"


@cache
def inputs_of(spec: Spec) -> dict[str, NDArray[Any]]:
    """The spec's inputs, made once and never written."""
    arrays = spec.make_inputs()
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


@cache
def reference_of(spec: Spec) -> NDArray[np.float64]:
    """The spec's float64 reference for `inputs_of`."""
    return spec.reference(inputs_of(spec))


def guarded(size_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Memory full of 0xFF (NaN in any float type), and the larger memory with guards around it."""
    whole = aligned_empty((size_bytes + 2 * GUARD_BYTES,), np.uint8)
    whole.fill(GUARD)
    inner = whole[GUARD_BYTES : GUARD_BYTES + size_bytes]
    inner.fill(0xFF)
    return inner, whole


def guards_are_intact(whole: NDArray[np.uint8]) -> bool:
    """Whether nothing was written before or behind the guarded memory."""
    return bool(np.all(whole[:GUARD_BYTES] == GUARD) and np.all(whole[-GUARD_BYTES:] == GUARD))


def run_kernel(key: str, spec: Spec, threads: int, tuning: Mapping[str, int] = MappingProxyType({})) -> NDArray[Any]:
    """Run on an output and a workspace of NaN bytes; what is not written, or read unwritten, shows as NaN."""
    params = native_params(spec)
    shape = spec.output_shape()
    memory, output_whole = guarded(int(np.prod(shape)) * spec.numpy_dtype.itemsize)
    workspace, workspace_whole = guarded(_core.workspace_bytes(key, params, threads, dict(tuning)))
    output: NDArray[Any] = memory.view(spec.numpy_dtype).reshape(shape)

    _core.bind(key, params, list(inputs_of(spec).values()), output, workspace, threads, dict(tuning))()

    assert guards_are_intact(output_whole), "the kernel wrote outside its output"
    assert guards_are_intact(workspace_whole), "the kernel wrote outside its workspace"
    return output
