"""PyTorch on CPU: functional operators in eager mode, NCHW or channels_last, without autograd."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable
from typing import Any

from profkit.backends.adapter import Array, Conditions, Implementation, Prepared
from profkit.backends.framework import (
    Framework,
    Job,
    Operator,
    channel_shape,
    elements_per_window,
    quiet_warnings,
    reported_layout,
    symmetric_padding,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.softmax import Softmax
from profkit.ops.window import Window

CHANNELS_LAST = "channels_last"
Tensor = Any


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(conditions.threads)
    with contextlib.suppress(RuntimeError):  # may be set once per process; a second start finds it set
        torch.set_num_interop_threads(1)
    # Thread-local and for good: the worker measures on the thread that starts the adapter.
    torch.set_grad_enabled(False)
    return {"version": str(torch.__version__), **build_facts(torch)}


def build_facts(torch: Any) -> dict[str, str]:
    """What this torch was built with, and how many threads it uses."""
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
    return {**facts, "threads": str(torch.get_num_threads())}


def _tensor(array: Array) -> Tensor:
    """The same bytes as a tensor."""
    with quiet_warnings():
        return importlib.import_module("torch").from_numpy(array)


def _held_layout(job: Job, spec: Any) -> str:
    return "NHWC" if job.variant == CHANNELS_LAST else str(spec.layout)


def _images(job: Job, spec: Any, name: str) -> Tensor:
    """An image input seen as NCHW; NHWC bytes become a channels_last view, no copy."""
    tensor = _tensor(job.inputs[name])
    if spec.layout == "NHWC":
        return tensor.permute(0, 3, 1, 2)
    return _formatted(job, spec, tensor)


def _formatted(job: Job, spec: Any, tensor: Tensor) -> Tensor:
    """A tensor in the memory format in which this implementation holds its images."""
    torch = importlib.import_module("torch")
    if _held_layout(job, spec) == "NHWC":
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def _image_result(spec: Any) -> Callable[[Tensor], Array]:
    """Logical NCHW tensors back to the spec's layout."""

    def convert(result: Tensor) -> Array:
        array: Array = (result.permute(0, 2, 3, 1) if spec.layout == "NHWC" else result).contiguous().numpy()
        return array

    return convert


def _prepared(job: Job, spec: Any, call: Callable[[], Tensor], note: str = "") -> Prepared:
    layout = reported_layout(spec.layout, _held_layout(job, spec))
    return Prepared(call, _image_result(spec), layout=layout, note=note)


def _refuse_same_layout(implementation: Implementation, spec: Any) -> str:
    if implementation.variant == CHANNELS_LAST and spec.layout == "NHWC":
        return "the spec's layout is NHWC already: the plain torch row holds its images in channels_last"
    return ""


def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    if spec.direction == INPUT_GRADIENT:
        return _conv2d_input_gradient(job, spec)
    if spec.direction == WEIGHT_GRADIENT:
        return _conv2d_weight_gradient(job, spec)
    functional = importlib.import_module("torch.nn.functional")
    x, w = _images(job, spec, "x"), _formatted(job, spec, _tensor(job.inputs["w"]))
    b = _tensor(job.inputs["b"]) if spec.bias else None
    padding, pad, note = split_padding(spec.window)
    relu = spec.activation == "relu"

    def call() -> Tensor:
        images = functional.pad(x, pad) if pad else x
        y = functional.conv2d(images, w, b, spec.stride, padding, spec.dilation, spec.groups)
        return y.relu_() if relu else y

    return _prepared(job, spec, call, note)


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
    dy, w = _images(job, spec, "dy"), _formatted(job, spec, _tensor(job.inputs["w"]))
    padding, pad, _ = split_padding(spec.window)
    size = spec.window.padded_size if pad else (spec.height, spec.width)
    # Only its shape and memory format matter to the operator: pages that are never touched cost nothing.
    x = _formatted(job, spec, torch.empty((spec.batch, spec.in_channels, *size), dtype=dy.dtype))
    backward = _backward(spec, padding, (True, False, False))
    crop = tuple(-side for side in pad)

    def call() -> Tensor:
        dx = backward(dy, x, w)[0]
        return functional.pad(dx, crop) if crop else dx

    note = "asymmetric padding: gradient of the padded image, cropped by F.pad inside the call" if pad else ""
    return _prepared(job, spec, call, note)


def _conv2d_weight_gradient(job: Job, spec: Conv2d) -> Prepared:
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    x, dy = _images(job, spec, "x"), _images(job, spec, "dy")
    w = _formatted(job, spec, torch.empty(spec.w_shape(), dtype=x.dtype))
    padding, pad, note = split_padding(spec.window)
    backward = _backward(spec, padding, (False, True, False))

    def call() -> Tensor:
        return backward(dy, functional.pad(x, pad) if pad else x, w)[1]

    layout = reported_layout(spec.layout, _held_layout(job, spec))
    return Prepared(call, lambda dw: dw.contiguous().numpy(), layout=layout, note=note)


def _backward(spec: Conv2d, padding: tuple[int, int], mask: tuple[bool, bool, bool]) -> Callable[..., Any]:
    operator = importlib.import_module("torch").ops.aten.convolution_backward.default

    def call(dy: Tensor, x: Tensor, w: Tensor) -> Any:
        return operator(dy, x, w, None, spec.stride, padding, spec.dilation, False, (0, 0), spec.groups, mask)

    return call


def _matmul(job: Job, spec: MatMul) -> Prepared:
    torch = importlib.import_module("torch")
    a, b = _tensor(job.inputs["a"]), _tensor(job.inputs["b"])
    a, b = a.mT if spec.transpose_a else a, b.mT if spec.transpose_b else b
    arguments: tuple[Tensor, ...] = (a, b)
    product = torch.bmm if spec.batch > 1 else torch.mm
    if spec.bias:
        arguments = (_tensor(job.inputs["bias"]), a, b)
        product = torch.baddbmm if spec.batch > 1 else torch.addmm
    if job.reuses_output:
        out = torch.empty(spec.output_shape(), dtype=a.dtype)
        return Prepared(lambda: product(*arguments, out=out), lambda c: c.numpy(), output="reused")
    return Prepared(lambda: product(*arguments), lambda c: c.numpy())


def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    functional = importlib.import_module("torch.nn.functional")
    x = _images(job, spec, "x")
    ceil_mode = needs_ceil_mode(spec.window)
    if ceil_mode is None:
        return _padded_pool2d(job, spec, x)
    padding = spec.window.pads[::2]
    if spec.mode == MAX:
        return _prepared(
            job,
            spec,
            lambda: functional.max_pool2d(x, spec.kernel_size, spec.stride, padding, ceil_mode=ceil_mode),
        )
    return _prepared(
        job,
        spec,
        lambda: functional.avg_pool2d(
            x, spec.kernel_size, spec.stride, padding, ceil_mode=ceil_mode, count_include_pad=False
        ),
    )


def needs_ceil_mode(window: Window) -> bool | None:
    """Which rounding of torch's own pooling gives exactly these windows; None when neither does."""
    before = window.pads[::2]
    if any(2 * pad > kernel for pad, kernel in zip(before, window.kernel)):
        return None
    spans = [size + 2 * pad - kernel for size, pad, kernel in zip(window.size, before, window.kernel)]
    floor = tuple(span // stride + 1 for span, stride in zip(spans, window.stride))
    # A last window that would start behind the image is dropped; the spec never has one.
    ceil = tuple(-(-span // stride) + 1 for span, stride in zip(spans, window.stride))
    return False if floor == window.out_size else True if ceil == window.out_size else None


def _padded_pool2d(job: Job, spec: Pool2d, x: Tensor) -> Prepared:
    """Pooling whose padding torch's operator cannot express: F.pad first, inside the call."""
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    top, bottom, left, right = spec.window.pads
    pad = (left, right, top, bottom)
    if spec.mode == MAX:
        return _prepared(
            job,
            spec,
            lambda: functional.max_pool2d(functional.pad(x, pad, value=float("-inf")), spec.kernel_size, spec.stride),
            "asymmetric padding: F.pad with -inf inside the call",
        )
    counts = torch.from_numpy(elements_per_window(spec.window)).to(x.dtype)

    def call() -> Tensor:
        sums = functional.avg_pool2d(functional.pad(x, pad), spec.kernel_size, spec.stride, divisor_override=1)
        return sums.div_(counts)

    return _prepared(job, spec, call, "asymmetric padding: F.pad, window sums and division inside the call")


def _lrn(job: Job, spec: LocalResponseNorm) -> Prepared:
    functional = importlib.import_module("torch.nn.functional")
    x = _images(job, spec, "x")
    return _prepared(job, spec, lambda: functional.local_response_norm(x, spec.size, spec.alpha, spec.beta, spec.k))


def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    torch = importlib.import_module("torch")
    x = _tensor(job.inputs["x"])
    b = _tensor(job.inputs["b"]).view(channel_shape(spec.layout))
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.add(x, b, out=out).relu_(), lambda y: y.numpy(), output="reused")
    return Prepared(lambda: torch.add(x, b).relu_(), lambda y: y.numpy())


def _softmax(job: Job, spec: Softmax) -> Prepared:
    torch = importlib.import_module("torch")
    x = _tensor(job.inputs["x"])
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.softmax(x, 1, out=out), lambda y: y.numpy(), output="reused")
    return Prepared(lambda: torch.softmax(x, 1), lambda y: y.numpy())


ADAPTER = Framework(
    name="torch",
    modules=("torch",),
    extra="torch",
    begin=_begin,
    operators={
        "conv2d": Operator(_conv2d, _refuse_same_layout, ("", CHANNELS_LAST)),
        "matmul": Operator(_matmul),
        "pool2d": Operator(_pool2d, _refuse_same_layout, ("", CHANNELS_LAST)),
        "lrn": Operator(_lrn),
        "bias_relu": Operator(_bias_relu),
        "softmax": Operator(_softmax),
    },
    # Keep a GPU build of torch away from the device and its start-up cost.
    environment={"CUDA_VISIBLE_DEVICES": ""},
)
