"""PyTorch on CPU: functional operators in eager mode, NCHW or channels_last, without autograd."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable
from typing import Any

from profkit.frameworks.adapter import Conditions, Implementation, Prepared
from profkit.frameworks.framework import (
    ALL_DTYPES,
    Framework,
    Job,
    channel_shape,
    reported_layout,
    symmetric_padding,
)
from profkit.frameworks.torch.pool2d import pool2d
from profkit.frameworks.torch.tensors import (
    CHANNELS_LAST,
    Tensor,
    formatted,
    held_layout,
    images_of,
    prepared_images,
    tensor_of,
    to_array,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.dtypes import is_narrow
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.softmax import Softmax
from profkit.ops.window import Window


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    facts = begin_torch(conditions.threads)
    # Thread-local and for good: the worker measures on the thread that starts the adapter.
    importlib.import_module("torch").set_grad_enabled(False)
    return facts


def begin_torch(threads: int) -> dict[str, str]:
    """Import torch and set its threads; its version, and what it was built with."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    with contextlib.suppress(RuntimeError):  # may be set once per process; a second start finds it set
        torch.set_num_interop_threads(1)
    text = str(torch.__config__.show())
    patterns = {
        "blas": r"BLAS_INFO=(\w+)",
        "cpu_capability": r"CPU capability usage: (\S+)",
        "onednn": r"MKL-DNN (v\S+)",
        "mkl": r"Math Kernel Library Version (\S+)",
        "openmp": r"OpenMP (\d+)",
        "nnpack": r"USE_NNPACK=(\w+)",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    facts = {name: match.group(1) for name, match in found.items() if match}
    return {"version": str(torch.__version__), **facts, "threads": str(torch.get_num_threads())}


ADAPTER = Framework(
    "torch",
    _begin,
    # Keep a GPU build of torch away from the device and its start-up cost.
    environment={"CUDA_VISIBLE_DEVICES": ""},
    dtypes=ALL_DTYPES,
)


def _refuse_same_layout(implementation: Implementation, spec: Any) -> str:
    if implementation.variant == CHANNELS_LAST and spec.layout == "NHWC":
        return "the spec's layout is NHWC already: the plain torch row holds its images in channels_last"
    return ""


ADAPTER.operator("pool2d", _refuse_same_layout, ("", CHANNELS_LAST))(pool2d)


@ADAPTER.operator("conv2d", _refuse_same_layout, ("", CHANNELS_LAST))
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    if spec.direction == INPUT_GRADIENT:
        return _conv2d_input_gradient(job, spec)
    if spec.direction == WEIGHT_GRADIENT:
        return _conv2d_weight_gradient(job, spec)
    functional = importlib.import_module("torch.nn.functional")
    x, w = images_of(job, spec, "x"), formatted(job, spec, tensor_of(job, "w"))
    b = tensor_of(job, "b") if spec.bias else None
    padding, pad, note = split_padding(spec.window)
    relu = spec.activation == "relu"

    def call() -> Tensor:
        images = functional.pad(x, pad) if pad else x
        y = functional.conv2d(images, w, b, spec.stride, padding, spec.dilation, spec.groups)
        return y.relu_() if relu else y

    return prepared_images(job, spec, call, note)


def split_padding(window: Window, value: str = "zeros") -> tuple[tuple[int, int], tuple[int, ...], str]:
    """Padding that the operator does itself, padding for F.pad before it, and the note about the latter."""
    symmetric = symmetric_padding(window)
    if symmetric is not None:
        return symmetric, (), ""
    top, bottom, left, right = window.pads
    return (0, 0), (left, right, top, bottom), f"asymmetric padding: F.pad with {value} inside the call"


def _conv2d_input_gradient(job: Job, spec: Conv2d) -> Prepared:
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    dy, w = images_of(job, spec, "dy"), formatted(job, spec, tensor_of(job, "w"))
    padding, pad, _ = split_padding(spec.window)
    size = spec.window.padded_size if pad else (spec.height, spec.width)
    # Only its shape and memory format matter to the operator: pages that are never touched cost nothing.
    x = formatted(job, spec, torch.empty((spec.batch, spec.in_channels, *size), dtype=dy.dtype, device=dy.device))
    backward = _backward(spec, padding, (True, False, False))
    crop = tuple(-side for side in pad)

    def call() -> Tensor:
        dx = backward(dy, x, w)[0]
        return functional.pad(dx, crop) if crop else dx

    note = "asymmetric padding: gradient of the padded image, cropped by F.pad inside the call" if pad else ""
    return prepared_images(job, spec, call, note)


def _conv2d_weight_gradient(job: Job, spec: Conv2d) -> Prepared:
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    x, dy = images_of(job, spec, "x"), images_of(job, spec, "dy")
    w = formatted(job, spec, torch.empty(spec.w_shape(), dtype=x.dtype, device=x.device))
    padding, pad, note = split_padding(spec.window)
    backward = _backward(spec, padding, (False, True, False))

    def call() -> Tensor:
        return backward(dy, functional.pad(x, pad) if pad else x, w)[1]

    layout = reported_layout(spec.layout, held_layout(job, spec))
    return Prepared(call, to_array, layout=layout, note=note)


def _backward(spec: Conv2d, padding: tuple[int, int], mask: tuple[bool, bool, bool]) -> Callable[..., Any]:
    operator = importlib.import_module("torch").ops.aten.convolution_backward.default

    def call(dy: Tensor, x: Tensor, w: Tensor) -> Any:
        return operator(dy, x, w, None, spec.stride, padding, spec.dilation, False, (0, 0), spec.groups, mask)

    return call


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: MatMul) -> Prepared:
    torch = importlib.import_module("torch")
    a, b = tensor_of(job, "a"), tensor_of(job, "b")
    a, b = a.mT if spec.transpose_a else a, b.mT if spec.transpose_b else b
    arguments: tuple[Tensor, ...] = (a, b)
    product = torch.bmm if spec.batch > 1 else torch.mm
    if spec.bias:
        arguments = (tensor_of(job, "bias"), a, b)
        product = torch.baddbmm if spec.batch > 1 else torch.addmm
    finish = torch.relu_ if spec.activation == "relu" else _as_it_is
    if job.reuses_output:
        out = torch.empty(spec.output_shape(), dtype=a.dtype, device=a.device)
        return Prepared(lambda: finish(product(*arguments, out=out)), to_array, output="reused")
    return Prepared(lambda: finish(product(*arguments)), to_array)


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def _refuse_lrn(implementation: Implementation, spec: LocalResponseNorm) -> str:
    if implementation.device == "cpu" and is_narrow(spec.dtype):
        return f"torch's local_response_norm averages by avg_pool3d, which has no {spec.dtype} kernel on CPU"
    return ""


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: LocalResponseNorm) -> Prepared:
    functional = importlib.import_module("torch.nn.functional")
    x = images_of(job, spec, "x")
    return prepared_images(
        job, spec, lambda: functional.local_response_norm(x, spec.size, spec.alpha, spec.beta, spec.k)
    )


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    torch = importlib.import_module("torch")
    x = tensor_of(job, "x")
    b = tensor_of(job, "b").view(channel_shape(spec.layout))
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.add(x, b, out=out).relu_(), to_array, output="reused")
    return Prepared(lambda: torch.add(x, b).relu_(), to_array)


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    torch = importlib.import_module("torch")
    x = tensor_of(job, "x")
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.softmax(x, 1, out=out), to_array, output="reused")
    return Prepared(lambda: torch.softmax(x, 1), to_array)
