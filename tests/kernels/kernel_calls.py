"""How kernel tests call a registry kernel: guarded, dirty memory in; a checked result out. Over many shapes, what is
wrong is gathered, so that one failure hides no other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit import _core
from profkit.ops import SPECS, odd_specs
from profkit.ops.spec import Spec, max_error, tolerance
from profkit.selftests.guarded import HostMemory

OPERATORS = tuple(SPECS)
FEWEST_ODD_SPECS = {
    "conv2d/native/cpu/implicit_gemm": 40,
    "conv2d/native/cpu/skip_padding": 29,
    "conv2d/native/cpu/winograd_8x8": 2,
    "conv2d/native/cpu/winograd_6x6": 9,
    "conv2d/native/cpu/direct": 23,
    "conv2d/native/cpu/im2col": 40,
    "conv2d/native/cpu/im2col_batched": 40,
    "conv2d/native/cpu/reference": 40,
    "matmul/native/cpu/blocked": 27,
    "matmul/native/cpu/reference": 27,
    "pool2d/native/cpu/separable": 22,
    "pool2d/native/cpu/reference": 44,
    "lrn/native/cpu/windowed": 14,
    "lrn/native/cpu/reference": 15,
    "bias_relu/native/cpu/vectorized": 16,
    "bias_relu/native/cpu/reference": 16,
    "softmax/native/cpu/vectorized": 14,
    "softmax/native/cpu/reference": 14,
}
"""The least number of `odd_specs` that a kernel takes, on every instruction set: one that refuses more has lost some.
A new kernel gets a row."""


VECTOR_KERNELS = ("skip_padding", "winograd_8x8", "winograd_6x6", "direct", "im2col", "im2col_batched")
"""Convolutions that the portable instruction set does not have."""


def all_keys() -> list[str]:
    """Every kernel of the registry that the instruction set in use has."""
    missing = VECTOR_KERNELS if _core.cpu_features()["simd_active"] == "generic" else ()
    return [key for op in OPERATORS for key in _core.kernels(op) if key.rpartition("/")[2] not in missing]


def keys_of(*operators: str) -> list[str]:
    """Those of `all_keys` that are of these operators, without their references."""
    keys = [key for key in all_keys() if not key.endswith("/reference")]
    return [key for key in keys if key.split("/")[0] in operators]


def describe(spec: Spec) -> str:
    """A test id: the fields that differ from the defaults."""
    default = type(spec)().words()
    return "-".join(f"{name}={word}" for name, word in spec.words().items() if word != default[name]) or "default"


def takes(key: str, spec: Spec) -> bool:
    """Whether the kernel offers to run the spec."""
    return not _core.supports(key, spec.params())


def taken(key: str, specs: Sequence[Spec], fewest: int) -> list[Spec]:
    """The specs that the kernel offers to run; fails with its reasons when they are fewer than they must be."""
    reasons = [_core.supports(key, spec.params()) for spec in specs]
    found = [spec for spec, reason in zip(specs, reasons) if not reason]
    if len(found) < fewest:
        refused = [f"{describe(spec)}: {reason}" for spec, reason in zip(specs, reasons) if reason]
        words = f"{key} takes {len(found)} of {len(specs)} shapes, {fewest} expected at least; it refuses"
        raise AssertionError("\n".join([words, *refused]))
    return found


def taken_odd_specs(key: str) -> list[Spec]:
    """The odd shapes that the kernel offers to run, as many as it must."""
    return taken(key, odd_specs(key.split("/")[0]), FEWEST_ODD_SPECS[key])


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


def run_kernel(key: str, spec: Spec, threads: int, tuning: Mapping[str, int] = MappingProxyType({})) -> NDArray[Any]:
    """Run on an output and a workspace of NaN bytes; what is not written, or read unwritten, shows as NaN."""
    params = spec.params()
    shape = spec.output_shape()
    memory = HostMemory(int(np.prod(shape)) * spec.numpy_dtype.itemsize)
    workspace = HostMemory(_core.workspace_bytes(key, params, threads, dict(tuning)))
    output: NDArray[Any] = memory.inner.view(spec.numpy_dtype).reshape(shape)

    _core.bind(key, params, list(inputs_of(spec).values()), output, workspace.inner, threads, dict(tuning))()

    assert memory.is_intact(), "the kernel wrote outside its output"
    assert workspace.is_intact(), "the kernel wrote outside its workspace"
    return output


def no_tuning(spec: Spec, threads: int) -> Sequence[Mapping[str, int]]:
    """The sizes of blocks that the kernel chooses."""
    return [{}]


def assert_right(
    key: str,
    specs: Iterable[Spec],
    threads: Sequence[int],
    tunings: Callable[[Spec, int], Sequence[Mapping[str, int]]] = no_tuning,
) -> None:
    """Run all of it; fails with a line for each call that raised or is wrong: kernel, shape and numbers."""
    found = []
    for spec, number in itertools.product(specs, threads):
        limit = tolerance(spec.numpy_dtype, spec.reduction_length())
        for tuning in tunings(spec, number):
            call = f"{key} on {describe(spec)}, {number} threads{f', {dict(tuning)}' if tuning else ''}"
            try:
                error = max_error(run_kernel(key, spec, number, tuning), reference_of(spec))
            except Exception as problem:
                found.append(f"{call}: {type(problem).__name__}: {problem}")
                continue
            if not error <= limit:
                found.append(f"{call}: error {error:.3g}, tolerance {limit:.3g}")
    assert not found, "\n".join(found)
