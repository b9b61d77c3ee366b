"""PyTorch on CPU: functional operators in eager mode, NCHW or channels_last, without autograd."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from profkit import ops
from profkit.frameworks.adapter import Conditions, Implementation, Prepared
from profkit.frameworks.framework import ALL_DTYPES, Framework, Job
from profkit.frameworks.layouts import channel_shape, reported_layout, symmetric_padding
from profkit.frameworks.lazy import Tensor, functional, torch
from profkit.frameworks.torch.tensors import (
    CHANNELS_LAST,
    formatted,
    held_layout,
    images_of,
    prepared_images,
    tensor_of,
    to_array,
)
from profkit.ops.activation import GELU, HARD_SIGMOID, RELU, SCALED_TANH, SIGMOID, TANH, TANH_HEIGHT, TANH_SLOPE
from profkit.ops.batch_norm import INFERENCE, PARAMETER_GRADIENT
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.dtypes import is_narrow
from profkit.ops.lstm import GATE_GRADIENT, STATE_GRADIENT
from profkit.ops.optimiser_step import ADAM, RMSPROP
from profkit.ops.pool2d import MAX
from profkit.ops.window import Window

FORWARD_AHEAD = "autograd's backward; the forward pass is made ahead of the call"


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    facts = begin_torch(conditions.threads)
    # Thread-local and for good: the worker measures on the thread that starts the adapter.
    torch.set_grad_enabled(False)
    return facts


def begin_torch(threads: int) -> dict[str, str]:
    """Import torch and set its threads; its version, and what it was built with."""
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


@ADAPTER.operator("conv2d", _refuse_same_layout, ("", CHANNELS_LAST))
def _conv2d(job: Job, spec: ops.Conv2d) -> Prepared:
    if spec.direction == INPUT_GRADIENT:
        return _conv2d_input_gradient(job, spec)
    if spec.direction == WEIGHT_GRADIENT:
        return _conv2d_weight_gradient(job, spec)
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


def _conv2d_input_gradient(job: Job, spec: ops.Conv2d) -> Prepared:
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


def _conv2d_weight_gradient(job: Job, spec: ops.Conv2d) -> Prepared:
    x, dy = images_of(job, spec, "x"), images_of(job, spec, "dy")
    w = formatted(job, spec, torch.empty(spec.w_shape(), dtype=x.dtype, device=x.device))
    padding, pad, note = split_padding(spec.window)
    backward = _backward(spec, padding, (False, True, False))

    def call() -> Tensor:
        return backward(dy, functional.pad(x, pad) if pad else x, w)[1]

    layout = reported_layout(spec.layout, held_layout(job, spec))
    return Prepared(call, to_array, layout=layout, note=note)


def _backward(spec: ops.Conv2d, padding: tuple[int, int], mask: tuple[bool, bool, bool]) -> Callable[..., Any]:
    operator = torch.ops.aten.convolution_backward.default

    def call(dy: Tensor, x: Tensor, w: Tensor) -> Any:
        return operator(dy, x, w, None, spec.stride, padding, spec.dilation, False, (0, 0), spec.groups, mask)

    return call


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: ops.MatMul) -> Prepared:
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


@ADAPTER.operator("pool2d", _refuse_same_layout, ("", CHANNELS_LAST))
def _pool2d(job: Job, spec: ops.Pool2d) -> Prepared:
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    x, sides = images_of(job, spec, "x"), (spec.kernel_size, spec.stride)
    ceil_mode = needs_ceil_mode(spec.window)
    if ceil_mode is None:
        return _padded_pool2d(job, spec, x)
    pool = functional.max_pool2d if spec.mode == MAX else partial(functional.avg_pool2d, count_include_pad=False)
    call = partial(pool, x, *sides, spec.window.pads[::2], ceil_mode=ceil_mode)
    return prepared_images(job, spec, call)


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


def _padded_pool2d(job: Job, spec: ops.Pool2d, x: Tensor) -> Prepared:
    """Pooling whose padding torch's operator cannot express: F.pad first, inside the call."""
    top, bottom, left, right = spec.window.pads
    pad = (left, right, top, bottom)

    def largest() -> Tensor:
        return functional.max_pool2d(functional.pad(x, pad, value=float("-inf")), spec.kernel_size, spec.stride)

    if spec.mode == MAX:
        return prepared_images(job, spec, largest, "asymmetric padding: F.pad with -inf inside the call")
    counts = torch.from_numpy(spec.window.element_counts()).to(x)

    def average() -> Tensor:
        sums = functional.avg_pool2d(functional.pad(x, pad), spec.kernel_size, spec.stride, divisor_override=1)
        return sums.div_(counts)

    return prepared_images(job, spec, average, "asymmetric padding: F.pad, window sums and division inside the call")


def _pool2d_gradient(job: Job, spec: ops.Pool2d) -> Prepared:
    """torch's own backward operators. That of a maximum needs the indices of the forward pass: made ahead of the
    call, as in training. Padding that torch cannot express: the gradient of the padded image, cropped."""
    aten = torch.ops.aten
    dy, ceil_mode = images_of(job, spec, "dy"), needs_ceil_mode(spec.window)
    top, bottom, left, right = spec.window.pads if ceil_mode is None else (0, 0, 0, 0)
    pad = (left, right, top, bottom)
    padding = (0, 0) if ceil_mode is None else spec.window.pads[::2]
    sides = (spec.kernel_size, spec.stride, padding)
    if spec.mode == MAX:
        x = functional.pad(images_of(job, spec, "x"), pad, value=float("-inf"))
        _, indices = aten.max_pool2d_with_indices(x, *sides, (1, 1), bool(ceil_mode))

        def backward() -> Tensor:
            return aten.max_pool2d_with_indices_backward(dy, x, *sides, (1, 1), bool(ceil_mode), indices)
    else:
        size = spec.window.padded_size if ceil_mode is None else (spec.height, spec.width)
        x = formatted(job, spec, torch.empty((spec.batch, spec.channels, *size), dtype=dy.dtype, device=dy.device))
        # Divisors of a padded image are not torch's: the shares are made here, each window then hands out its sum.
        counts = torch.from_numpy(spec.window.element_counts()).to(dy)

        def backward() -> Tensor:
            if ceil_mode is None:
                return aten.avg_pool2d_backward(dy / counts, x, *sides, False, False, 1)
            return aten.avg_pool2d_backward(dy, x, *sides, ceil_mode, False, None)

    def call() -> Tensor:
        dx = backward()
        return functional.pad(dx, tuple(-side for side in pad)) if any(pad) else dx

    notes = ["the forward pass's indices are made ahead of the call"] if spec.mode == MAX else []
    notes += ["asymmetric padding: gradient of the padded image, cropped by F.pad inside the call"] if any(pad) else []
    return prepared_images(job, spec, call, "; ".join(notes))


def _refuse_lrn(implementation: Implementation, spec: ops.LocalResponseNorm) -> str:
    if implementation.device == "cpu" and is_narrow(spec.dtype):
        return f"torch's local_response_norm averages by avg_pool3d, which has no {spec.dtype} kernel on CPU"
    return ""


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: ops.LocalResponseNorm) -> Prepared:
    if spec.direction != FORWARD:
        return _lrn_gradient(job, spec)
    x = images_of(job, spec, "x")
    return prepared_images(
        job, spec, lambda: functional.local_response_norm(x, spec.size, spec.alpha, spec.beta, spec.k)
    )


def _lrn_gradient(job: Job, spec: ops.LocalResponseNorm) -> Prepared:
    """Autograd's backward alone, as often as asked; the forward pass is made ahead of the call."""
    dy = images_of(job, spec, "dy")
    with torch.enable_grad():
        x = images_of(job, spec, "x").detach().requires_grad_()
        y = functional.local_response_norm(x, spec.size, spec.alpha, spec.beta, spec.k)

    def call() -> Tensor:
        return torch.autograd.grad(y, x, dy, retain_graph=True)[0]

    return prepared_images(job, spec, call, FORWARD_AHEAD)


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: ops.BiasRelu) -> Prepared:
    if spec.direction != FORWARD:
        y, dy, backward = tensor_of(job, "y"), tensor_of(job, "dy"), torch.ops.aten.threshold_backward
        if spec.direction == INPUT_GRADIENT:
            return Prepared(lambda: backward(dy, y, 0), to_array)
        axes = (0, 2, 3) if spec.layout == "NCHW" else (0, 1, 2)
        return Prepared(lambda: backward(dy, y, 0).sum(axes), to_array)
    x = tensor_of(job, "x")
    b = tensor_of(job, "b").view(channel_shape(spec.layout))
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.add(x, b, out=out).relu_(), to_array, output="reused")
    return Prepared(lambda: torch.add(x, b).relu_(), to_array)


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: ops.Softmax) -> Prepared:
    x = tensor_of(job, "x")
    if spec.direction != FORWARD:
        labels = tensor_of(job, "labels")
        return Prepared(lambda: torch.softmax(x, 1).sub_(labels), to_array, note="composed: softmax and a difference")
    if job.reuses_output:
        out = torch.empty_like(x)
        return Prepared(lambda: torch.softmax(x, 1, out=out), to_array, output="reused")
    return Prepared(lambda: torch.softmax(x, 1), to_array)


def _prepared(job: Job, call: Callable[..., Tensor], *arguments: Tensor, note: str = "") -> Prepared:
    """A call that takes `out`, where the caller wants one output for all."""
    if not job.reuses_output:
        return Prepared(lambda: call(*arguments), to_array, note=note)
    out = torch.empty_like(arguments[0])
    return Prepared(lambda: call(*arguments, out=out), to_array, output="reused", note=note)


def activated(function: str, x: Tensor) -> Tensor:
    """A new tensor."""
    if function == SCALED_TANH:
        return torch.tanh(x * TANH_SLOPE).mul_(TANH_HEIGHT)
    if function == HARD_SIGMOID:
        return torch.mul(x, 0.2).add_(0.5).clamp_(0.0, 1.0)
    return {RELU: torch.relu, TANH: torch.tanh, SIGMOID: torch.sigmoid, GELU: functional.gelu}[function](x)


@ADAPTER.operator("activation")
def _activation(job: Job, spec: ops.Activation) -> Prepared:
    x, function = tensor_of(job, "x"), spec.function
    composed = function in (SCALED_TANH, HARD_SIGMOID)
    if spec.direction == FORWARD:
        note = f"composed: torch has no {function}" if composed else ""
        return Prepared(lambda: activated(function, x), to_array, note=note)
    dy, aten = tensor_of(job, "dy"), torch.ops.aten

    def gradient() -> Tensor:
        if function == RELU:
            return aten.threshold_backward(dy, x, 0)
        if function == GELU:
            return aten.gelu_backward(dy, x)
        if function == SIGMOID:
            return aten.sigmoid_backward(dy, torch.sigmoid(x))
        if function == TANH:
            return aten.tanh_backward(dy, torch.tanh(x))
        if function == SCALED_TANH:
            return aten.tanh_backward(dy, torch.tanh(x * TANH_SLOPE)).mul_(TANH_HEIGHT * TANH_SLOPE)
        return aten.hardtanh_backward(dy, x, -2.5, 2.5).mul_(0.2)

    recomputed = function in (TANH, SIGMOID, SCALED_TANH)
    return Prepared(gradient, to_array, note="the forward result is made again in the call" if recomputed else "")


@ADAPTER.operator("add")
def _add(job: Job, spec: ops.Add) -> Prepared:
    return _prepared(job, torch.add, tensor_of(job, "a"), tensor_of(job, "b"))


@ADAPTER.operator("dropout")
def _dropout(job: Job, spec: ops.Dropout) -> Prepared:
    note = "a product with the given mask: torch's own dropout draws one"
    return _prepared(job, torch.mul, tensor_of(job, "x"), tensor_of(job, "mask"), note=note)


STATISTICS_AHEAD = "the forward pass's statistics are made ahead of the call"


def _stacked(result: tuple[Tensor, ...]) -> Any:
    return to_array(torch.stack(result))


@ADAPTER.operator("batch_norm")
def _batch_norm(job: Job, spec: ops.BatchNorm) -> Prepared:
    x, aten = images_of(job, spec, "x"), torch.ops.aten
    if spec.direction == FORWARD:
        scale, shift = tensor_of(job, "scale"), tensor_of(job, "shift")
        if spec.mode == INFERENCE:
            given = tensor_of(job, "mean"), tensor_of(job, "variance")
            call = partial(functional.batch_norm, x, *given, scale, shift, False, 0.0, spec.epsilon)
            return prepared_images(job, spec, call)
        return prepared_images(
            job, spec, lambda: aten.native_batch_norm(x, scale, shift, None, None, True, 0.0, spec.epsilon)[0]
        )
    dy = images_of(job, spec, "dy")
    by_parameters = spec.direction == PARAMETER_GRADIENT
    scale = torch.ones_like(dy[0, :, 0, 0]) if by_parameters else tensor_of(job, "scale")
    _, mean, inverse = aten.native_batch_norm(x, scale, None, None, None, True, 0.0, spec.epsilon)
    wanted = [not by_parameters, by_parameters, by_parameters]

    def backward() -> Any:
        return aten.native_batch_norm_backward(dy, x, scale, None, None, mean, inverse, True, spec.epsilon, wanted)

    if by_parameters:
        return Prepared(lambda: backward()[1:], _stacked, note=STATISTICS_AHEAD)
    return prepared_images(job, spec, lambda: backward()[0], STATISTICS_AHEAD)


@ADAPTER.operator("layer_norm")
def _layer_norm(job: Job, spec: ops.LayerNorm) -> Prepared:
    x, shape, aten = tensor_of(job, "x"), [spec.width], torch.ops.aten
    if spec.direction == FORWARD:
        scale, shift = tensor_of(job, "scale"), tensor_of(job, "shift")
        return Prepared(lambda: functional.layer_norm(x, shape, scale, shift, spec.epsilon), to_array)
    dy, by_parameters = tensor_of(job, "dy"), spec.direction == PARAMETER_GRADIENT
    scale = torch.ones_like(x[0]) if by_parameters else tensor_of(job, "scale")
    shift = torch.zeros_like(scale)
    _, mean, inverse = aten.native_layer_norm(x, shape, scale, shift, spec.epsilon)
    wanted = [not by_parameters, by_parameters, by_parameters]

    def backward() -> Any:
        return aten.native_layer_norm_backward(dy, x, shape, mean, inverse, scale, shift, wanted)

    if by_parameters:
        return Prepared(lambda: backward()[1:], _stacked, note=STATISTICS_AHEAD)
    return Prepared(lambda: backward()[0], to_array, note=STATISTICS_AHEAD)


@ADAPTER.operator("embedding")
def _embedding(job: Job, spec: ops.Embedding) -> Prepared:
    indices = tensor_of(job, "indices")
    if spec.direction == FORWARD:
        table = tensor_of(job, "table")
        return Prepared(lambda: functional.embedding(indices, table), to_array)
    dy, backward = tensor_of(job, "dy"), torch.ops.aten.embedding_dense_backward
    return Prepared(lambda: backward(dy, indices, spec.vocabulary, -1, False), to_array)


def _refuse_lstm(implementation: Implementation, spec: ops.Lstm) -> str:
    return "autograd has no gradient by the sums of torch.lstm's gates" if spec.direction == GATE_GRADIENT else ""


@ADAPTER.operator("lstm", _refuse_lstm)
def _lstm(job: Job, spec: ops.Lstm) -> Prepared:
    """torch.lstm has tanh and sigmoid; with other functions the steps are those of the formula."""
    x, w, u, b = (tensor_of(job, name) for name in ("x", "w", "u", "b"))
    zeros = torch.zeros((spec.batch, spec.cells), dtype=x.dtype, device=x.device)
    is_own = (spec.activation, spec.recurrent_activation) == (TANH, SIGMOID)
    weights = [w.T.contiguous(), u.T.contiguous(), b, torch.zeros_like(b)] if is_own else [w, u, b]
    run = _own_lstm if is_own else _composed_lstm
    note = f"composed step by step: torch.lstm has no {spec.recurrent_activation} gates with {spec.activation}"
    notes = [] if is_own else [note]
    if spec.direction == FORWARD:
        return Prepared(lambda: run(spec, x, weights, zeros, zeros), to_array, note="; ".join(notes))
    state, dy = [zeros, zeros.clone()], tensor_of(job, "dy")
    wanted = {INPUT_GRADIENT: [x], WEIGHT_GRADIENT: weights[:3], STATE_GRADIENT: state}[spec.direction]
    with torch.enable_grad():
        for leaf in wanted:
            leaf.requires_grad_()
        y = run(spec, x, weights, *state)

    def gradients() -> Any:
        return torch.autograd.grad(y, wanted, dy, retain_graph=True)

    def joined(found: tuple[Tensor, ...]) -> Any:
        if spec.direction == WEIGHT_GRADIENT:
            by_w, by_u, by_b = found
            return to_array(torch.cat([by_w.T, by_u.T, by_b[None]] if is_own else [by_w, by_u, by_b[None]]))
        return to_array(found[0]) if spec.direction == INPUT_GRADIENT else _stacked(found)

    return Prepared(gradients, joined, note="; ".join([*notes, FORWARD_AHEAD]))


def _own_lstm(spec: ops.Lstm, x: Tensor, weights: list[Tensor], h: Tensor, c: Tensor) -> Tensor:
    is_training = spec.direction != FORWARD  # otherwise cuDNN keeps nothing for a gradient, and refuses it
    y, last, _ = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, is_training, False, True)
    return y if spec.returns_sequence else last[0]


def _composed_lstm(spec: ops.Lstm, x: Tensor, weights: list[Tensor], h: Tensor, c: Tensor) -> Tensor:
    w, u, b = weights
    # Autograd needs what a product was made of.
    times = torch.Tensor.mul_ if spec.direction == FORWARD else torch.mul
    sums = torch.addmm(b, x.reshape(-1, spec.inputs), w).view(spec.batch, spec.steps, -1)
    results = []
    for step in range(spec.steps):
        z = torch.addmm(sums[:, step], h, u)
        z_i, z_f, z_c, z_o = z.split(spec.cells, 1)
        i, f, o = (activated(spec.recurrent_activation, gate) for gate in (z_i, z_f, z_o))
        c = times(f, c).addcmul_(i, activated(spec.activation, z_c))
        h = times(o, activated(spec.activation, c))
        results.append(h)
    return torch.stack(results, 1) if spec.returns_sequence else h


@ADAPTER.operator("attention")
def _attention(job: Job, spec: ops.Attention) -> Prepared:
    shape, result = (spec.batch, spec.steps, spec.heads, spec.width), spec.result_shape()
    given = [tensor_of(job, name) for name in ("q", "k", "v")]

    def call() -> Tensor:
        q, k, v = (each.view(shape).transpose(1, 2) for each in given)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=spec.causal)
        return y.transpose(1, 2).reshape(result)

    if spec.direction == FORWARD:
        return Prepared(call, to_array)
    dy = tensor_of(job, "dy")
    with torch.enable_grad():
        for leaf in given:
            leaf.requires_grad_()
        y = call()
    return Prepared(lambda: torch.autograd.grad(y, given, dy, retain_graph=True), _stacked, note=FORWARD_AHEAD)


@ADAPTER.operator("optimiser_step")
def _optimiser_step(job: Job, spec: ops.OptimiserStep) -> Prepared:
    w, g, *states = (tensor_of(job, name) for name in spec.input_shapes())
    rate, root = spec.adam_factors()

    def call() -> tuple[Tensor, ...]:
        slope = torch.add(g, w, alpha=spec.weight_decay) if spec.weight_decay else g
        if spec.optimiser == ADAM:
            m = torch.lerp(states[0], slope, 1.0 - spec.beta1)
            v = torch.mul(states[1], spec.beta2).addcmul_(slope, slope, value=1.0 - spec.beta2)
            return torch.addcdiv(w, m, v.sqrt().mul_(root).add_(spec.epsilon), value=-rate), m, v
        if spec.optimiser == RMSPROP:
            s = torch.mul(states[0], spec.rho).addcmul_(slope, slope, value=1.0 - spec.rho)
            return torch.addcdiv(w, slope, s.sqrt().add_(spec.epsilon), value=-spec.learning_rate), s
        if not states:
            return (torch.add(w, slope, alpha=-spec.learning_rate),)
        velocity = torch.add(slope, states[0], alpha=spec.momentum)
        along = torch.add(slope, velocity, alpha=spec.momentum) if spec.nesterov else velocity
        return torch.add(w, along, alpha=-spec.learning_rate), velocity

    note = "composed into new tensors, as its optimisers do with foreach: those change theirs in place"
    return Prepared(call, _stacked, note=note)
