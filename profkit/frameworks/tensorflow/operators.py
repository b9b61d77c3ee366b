"""TensorFlow on CPU: tf.nn operators as a graph (tf.function) or eagerly; images are held as NHWC."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared
from profkit.frameworks.framework import (
    ALL_DTYPES,
    Framework,
    Job,
    held_as,
    padding_word,
    reported_layout,
    to_layout,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.softmax import Softmax
from profkit.ops.window import Window

EAGER = "eager"
HELD = "NHWC"
Tensor = Any
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}


def begin_tensorflow(conditions: Conditions) -> dict[str, str]:
    """Open TensorFlow with this many threads and no GPU; the keras adapter starts its backend here too."""
    tf = importlib.import_module("tensorflow")
    # Both must come before the first operator creates the runtime.
    tf.config.threading.set_intra_op_parallelism_threads(conditions.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
    # A worker builds one tf.function per spec, which TensorFlow takes for retracing by mistake.
    tf.get_logger().setLevel("ERROR")
    build = tf.sysconfig.get_build_info()
    return {
        "version": str(tf.__version__),
        "onednn": _onednn_state(),
        "built_with_cuda": str(build.get("is_cuda_build", "unknown")),
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
    }


def _onednn_state() -> str:
    try:
        port = importlib.import_module("tensorflow.python.util._pywrap_util_port")
        return "on" if port.IsMklEnabled() else "off"
    except (ImportError, AttributeError):
        return "unknown"


ADAPTER = Framework(
    "tensorflow",
    lambda _, conditions: begin_tensorflow(conditions),
    variants=("", EAGER),
    on_request=(EAGER,),
    environment=ENVIRONMENT,
    dtypes=ALL_DTYPES,
)


def _tensorflow() -> Any:
    return importlib.import_module("tensorflow")


def _images(job: Job, spec: Any, name: str) -> Tensor:
    return _tensorflow().constant(to_layout(job.inputs[name], spec.layout, HELD))


def _prepared(job: Job, run: Callable[..., Tensor], arguments: Sequence[Tensor], **facts: Any) -> Prepared:
    """A call of `run`, traced once into a graph unless the variant is eager.

    The inputs are arguments, so that the graph optimiser cannot compute the result ahead. A graph on CPU
    returns when its result exists: nothing is left to wait for.
    """
    if job.variant != EAGER:
        run = _tensorflow().function(run, autograph=False)
    return Prepared(lambda: run(*arguments), facts.pop("to_numpy", lambda result: result.numpy()), **facts)


def _image_prepared(
    job: Job, spec: Any, run: Callable[..., Tensor], arguments: Sequence[Tensor], note: str = ""
) -> Prepared:
    return held_as(HELD, _prepared(job, run, arguments, note=note), spec)


def explicit_padding(window: Window) -> tuple[str, list[int]]:
    """TensorFlow's padding word and, for EXPLICIT, its flat list of numbers for NHWC."""
    word = padding_word(window)
    if word:
        return word.upper(), []
    return "EXPLICIT", [width for pair in window.pad_widths(HELD) for width in pair]


def padding_of(window: Window) -> Any:
    """As tf.nn takes it: a word, or the widths of every dimension."""
    return padding_word(window).upper() or window.pad_widths(HELD)


def _is_depthwise(spec: Conv2d) -> bool:
    """tf.nn.depthwise_conv2d takes square strides and no dilation."""
    return (
        spec.groups > 1
        and spec.groups == spec.in_channels
        and spec.stride[0] == spec.stride[1]
        and spec.dilation == (1, 1)
    )


def _refuse_conv2d(implementation: Implementation, spec: Conv2d) -> str:
    if spec.direction == FORWARD:
        return ""
    if spec.dilation != (1, 1):
        return f"TensorFlow's CPU gradient kernels take no dilation, got {spec.dilation[0]}x{spec.dilation[1]}"
    if spec.groups > 1 and not _is_depthwise(spec):
        return f"TensorFlow has no gradient of grouped convolution on CPU, got groups {spec.groups}"
    return ""


def _geometry(spec: Conv2d) -> dict[str, Any]:
    word, numbers = explicit_padding(spec.window)
    return {
        "strides": [1, *spec.stride, 1],
        "padding": word,
        "explicit_paddings": numbers,
        "dilations": [1, *spec.dilation, 1],
    }


def _weights(spec: Conv2d, w: Array) -> Array:
    """[out, in/groups, h, w] as TensorFlow's HWIO, or [h, w, in, multiplier] for a depthwise convolution."""
    hwio = w.transpose(2, 3, 1, 0)
    if _is_depthwise(spec):
        hwio = hwio.reshape(*spec.kernel_size, spec.in_channels, -1)
    return np.ascontiguousarray(hwio)


def _weights_result(spec: Conv2d) -> Callable[[Tensor], Array]:
    def convert(result: Tensor) -> Array:
        hwio = result.numpy().reshape(*spec.kernel_size, spec.in_channels // spec.groups, spec.out_channels)
        return np.ascontiguousarray(hwio.transpose(3, 2, 0, 1))

    return convert


@ADAPTER.operator("conv2d", _refuse_conv2d)
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    if spec.direction != FORWARD:
        return _conv2d_gradient(job, spec)
    tf = _tensorflow()
    padding = padding_of(spec.window)
    strides, dilations = [1, *spec.stride, 1], [1, *spec.dilation, 1]
    depthwise = _is_depthwise(spec)

    def run(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        if depthwise:
            y = tf.nn.depthwise_conv2d(x, w, strides, padding)
        else:
            y = tf.nn.conv2d(x, w, strides, padding, dilations=dilations)
        y = y if b is None else tf.nn.bias_add(y, b)
        return tf.nn.relu(y) if spec.activation == "relu" else y

    arguments = [_images(job, spec, "x"), tf.constant(_weights(spec, job.inputs["w"]))]
    arguments += [tf.constant(job.inputs["b"])] if spec.bias else []
    return _image_prepared(job, spec, run, arguments)


def _conv2d_gradient(job: Job, spec: Conv2d) -> Prepared:
    tf = _tensorflow()
    geometry = _geometry(spec)
    family = "DepthwiseConv2dNative" if _is_depthwise(spec) else "Conv2D"
    if spec.direction == INPUT_GRADIENT:
        operator = getattr(tf.raw_ops, f"{family}BackpropInput")
        size = [spec.batch, spec.height, spec.width, spec.in_channels]

        def run(w: Tensor, dy: Tensor) -> Tensor:
            return operator(input_sizes=size, filter=w, out_backprop=dy, **geometry)

        w = tf.constant(_weights(spec, job.inputs["w"]))
        return _image_prepared(job, spec, run, [w, _images(job, spec, "dy")])

    assert spec.direction == WEIGHT_GRADIENT
    operator = getattr(tf.raw_ops, f"{family}BackpropFilter")
    shape = list(_weights(spec, np.empty(spec.w_shape(), dtype=np.int8)).shape)

    def run_filter(x: Tensor, dy: Tensor) -> Tensor:
        return operator(input=x, filter_sizes=shape, out_backprop=dy, **geometry)

    return _prepared(
        job,
        run_filter,
        [_images(job, spec, "x"), _images(job, spec, "dy")],
        to_numpy=_weights_result(spec),
        layout=reported_layout(spec.layout, HELD),
        note="the gradient comes out as HWIO",
    )


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: MatMul) -> Prepared:
    tf = _tensorflow()

    def run(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        c = tf.linalg.matmul(a, b, transpose_a=spec.transpose_a, transpose_b=spec.transpose_b)
        c = c if bias is None else tf.nn.bias_add(c, bias)
        return tf.nn.relu(c) if spec.activation == "relu" else c

    return _prepared(job, run, [tf.constant(array) for array in job.arrays("a", "b", "bias")])


def _pool2d_gradient(job: Job, spec: Pool2d) -> Prepared:
    """TensorFlow's own gradient kernels. That of a maximum asks for the forward result: made ahead of the call, as in
    training, where the forward pass has it."""
    tf = _tensorflow()
    word, numbers = explicit_padding(spec.window)
    geometry: dict[str, Any] = {"ksize": [1, *spec.kernel_size, 1], "strides": [1, *spec.stride, 1]}
    dy = _images(job, spec, "dy")
    if spec.mode == MAX:
        x = _images(job, spec, "x")
        y = tf.nn.max_pool2d(x, spec.kernel_size, spec.stride, padding_of(spec.window))
        return _image_prepared(
            job,
            spec,
            lambda x, y, dy: tf.raw_ops.MaxPoolGrad(
                orig_input=x, orig_output=y, grad=dy, padding=word, explicit_paddings=numbers, **geometry
            ),
            [x, y, dy],
            "MaxPoolGrad; the forward result that it takes is made ahead of the call",
        )
    size = [spec.batch, spec.height, spec.width, spec.channels]
    return _image_prepared(
        job,
        spec,
        lambda dy: tf.raw_ops.AvgPoolGrad(orig_input_shape=size, grad=dy, padding=word, **geometry),
        [dy],
    )


def _refuse_pool2d(implementation: Implementation, spec: Pool2d) -> str:
    if spec.direction == FORWARD or spec.mode == MAX or padding_word(spec.window):
        return ""
    return "TensorFlow's AvgPoolGrad knows padding SAME and VALID only"


@ADAPTER.operator("pool2d", _refuse_pool2d)
def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    tf = _tensorflow()
    word = padding_word(spec.window).upper()
    arguments = [_images(job, spec, "x")]
    if spec.mode == MAX:
        padding = padding_of(spec.window)
        return _image_prepared(
            job, spec, lambda x: tf.nn.max_pool2d(x, spec.kernel_size, spec.stride, padding), arguments
        )
    if word:
        return _image_prepared(job, spec, lambda x: tf.nn.avg_pool2d(x, spec.kernel_size, spec.stride, word), arguments)
    # avg_pool2d knows only SAME and VALID: pad first, then undo the division by padded elements.
    full = spec.kernel_size[0] * spec.kernel_size[1]
    scale = (full / spec.window.element_counts())[None, :, :, None].astype(spec.numpy_dtype)
    paddings = spec.window.pad_widths(HELD)

    def run(x: Tensor, factors: Tensor) -> Tensor:
        return tf.nn.avg_pool2d(tf.pad(x, paddings), spec.kernel_size, spec.stride, "VALID") * factors

    note = "explicit padding: tf.pad, avg_pool2d and rescaling inside the call"
    return _image_prepared(job, spec, run, [*arguments, tf.constant(scale)], note)


def _refuse_lrn(implementation: Implementation, spec: LocalResponseNorm) -> str:
    if spec.dtype != "float32":
        return f"tf.nn.local_response_normalization has no {spec.dtype} kernel"
    if spec.size % 2 == 0:
        return f"tf.nn.local_response_normalization sums depth_radius*2+1 channels: an odd size, got {spec.size}"
    return ""


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: LocalResponseNorm) -> Prepared:
    tf = _tensorflow()
    radius, alpha = spec.size // 2, spec.alpha / spec.size
    return _image_prepared(
        job,
        spec,
        lambda x: tf.nn.local_response_normalization(x, radius, spec.k, alpha, spec.beta),
        [_images(job, spec, "x")],
    )


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    tf = _tensorflow()
    arguments = [_images(job, spec, "x"), tf.constant(job.inputs["b"])]
    return _image_prepared(job, spec, lambda x, b: tf.nn.relu(tf.nn.bias_add(x, b)), arguments)


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    tf = _tensorflow()
    return _prepared(job, lambda x: tf.nn.softmax(x, axis=-1), [tf.constant(job.inputs["x"])])
