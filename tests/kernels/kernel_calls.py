"""How kernel tests call a registry kernel: guarded, dirty memory in; a checked result out. Over many shapes, what is
wrong is gathered, so that one failure hides no other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from profkit import _core
from profkit.frameworks import load_adapter
from profkit.ops import SPECS, odd_specs
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.spec import Spec, max_error, tolerance
from profkit.selftests.guarded import HostMemory

OPERATORS = tuple(op for op in SPECS if load_adapter("native").implementations(op))
"""Those with native kernels."""


class Fewest(NamedTuple):
    """The least number of shapes that a kernel takes, on every instruction set: one that refuses more has lost some."""

    odd: int
    """Of `odd_specs`."""
    grid: int = 0
    """Of strides, paddings and types (test_registry.py)."""
    far: int = 0
    """Of strides larger than the image (test_registry.py)."""
    several_blocks: int = 0
    """Of those larger than blocks (test_blocking.py)."""
    chosen_blocks: int = 0
    """Of those with sizes of blocks to choose (test_block_sizes.py)."""


FEWEST = {
    "conv2d/native/cpu/implicit_gemm": Fewest(40, 192, 6, 84, 13),
    "conv2d/native/cpu/skip_padding": Fewest(29, 128, 4, 56, 9),
    # Winograd has no tiles for a kernel of 3x2, nor for strides above 4.
    "conv2d/native/cpu/winograd_8x8": Fewest(2, 0, 0, 8, 2),
    "conv2d/native/cpu/winograd_6x6": Fewest(9, 0, 0, 24, 4),
    "conv2d/native/cpu/direct": Fewest(23, 64, 2, 28, 5),
    "conv2d/native/cpu/im2col": Fewest(40, 192, 6, 84, 13),
    "conv2d/native/cpu/im2col_batched": Fewest(40, 192, 6, 84, 13),
    "conv2d/native/cpu/reference": Fewest(40, 192, 6),
    "matmul/native/cpu/blocked": Fewest(27, several_blocks=14, chosen_blocks=2),
    "matmul/native/cpu/reference": Fewest(27),
    "pool2d/native/cpu/separable": Fewest(22),
    "pool2d/native/cpu/reference": Fewest(44),
    "lrn/native/cpu/windowed": Fewest(28),
    "lrn/native/cpu/reference": Fewest(30),
    "bias_relu/native/cpu/vectorized": Fewest(40),
    "bias_relu/native/cpu/reference": Fewest(40),
    "softmax/native/cpu/vectorized": Fewest(25),
    "softmax/native/cpu/reference": Fewest(25),
    "activation/native/cpu/vectorized": Fewest(23),
    "activation/native/cpu/reference": Fewest(25),
    "add/native/cpu/vectorized": Fewest(17),
    "add/native/cpu/reference": Fewest(17),
    "attention/native/cpu/by_head": Fewest(14),
    "attention/native/cpu/head_gradients": Fewest(14),
    "attention/native/cpu/reference": Fewest(28),
    "batch_norm/native/cpu/vectorized": Fewest(32),
    "batch_norm/native/cpu/reference": Fewest(32),
    "dropout/native/cpu/vectorized": Fewest(15),
    "dropout/native/cpu/reference": Fewest(15),
    "embedding/native/cpu/vectorized": Fewest(20),
    "embedding/native/cpu/reference": Fewest(20),
    "layer_norm/native/cpu/vectorized": Fewest(27),
    "layer_norm/native/cpu/reference": Fewest(27),
    "lstm/native/cpu/steps": Fewest(14),
    "lstm/native/cpu/through_time": Fewest(32),
    "lstm/native/cpu/reference": Fewest(46),
    "optimiser_step/native/cpu/vectorized": Fewest(16),
    "optimiser_step/native/cpu/reference": Fewest(16),
}
"""A new kernel gets a row."""

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


def in_every_direction(**fields: Any) -> list[Conv2d]:
    """A convolution in both layouts and all directions; bias and ReLU belong to forward alone."""
    plain = {**fields, "bias": False, "activation": "none"}
    return [
        Conv2d(**(fields if direction == FORWARD else plain), layout=layout, direction=direction)
        for layout, direction in itertools.product(("NCHW", "NHWC"), (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT))
    ]


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
    return taken(key, odd_specs(key.split("/")[0]), FEWEST[key].odd)


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


def run_kernel(
    key: str, spec: Spec, threads: int, tuning: Mapping[str, int] = MappingProxyType({}), packs_ahead: bool = False
) -> NDArray[Any]:
    """Run on an output and a workspace of NaN bytes; what is not written, or read unwritten, shows as NaN."""
    params = spec.params()
    shape = spec.output_shape()
    memory = HostMemory(int(np.prod(shape)) * spec.numpy_dtype.itemsize)
    workspace = HostMemory(_core.workspace_bytes(key, params, threads, dict(tuning)))
    output: NDArray[Any] = memory.inner.view(spec.numpy_dtype).reshape(shape)
    inputs = list(inputs_of(spec).values())
    _core.bind(key, params, inputs, output, workspace.inner, threads, dict(tuning), packs_ahead)()
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
