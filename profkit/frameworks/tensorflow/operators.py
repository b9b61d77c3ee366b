"""TensorFlow on CPU: tf.nn operators as a graph (tf.function) or eagerly; images are held as NHWC."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit import ops
from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared
from profkit.frameworks.formulas import Module, formula
from profkit.frameworks.framework import ALL_DTYPES, Framework, Job
from profkit.frameworks.layouts import held_as, padding_word, reported_layout, to_layout
from profkit.frameworks.lazy import Tensor, tf
from profkit.ops.activation import GELU, HARD_SIGMOID, RELU, SCALED_TANH, SIGMOID, TANH, TANH_HEIGHT, TANH_SLOPE
from profkit.ops.batch_norm import INFERENCE, PARAMETER_GRADIENT
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.lstm import GATE_GRADIENT, STATE_GRADIENT
from profkit.ops.pool2d import MAX
from profkit.ops.window import Window

EAGER = "eager"
HELD = "NHWC"
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}


def begin_tensorflow(conditions: Conditions) -> dict[str, str]:
    """Open TensorFlow with this many threads and no GPU; the keras adapter starts its backend here too."""
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


def _images(job: Job, spec: Any, name: str) -> Tensor:
    return tf.constant(to_layout(job.inputs[name], spec.layout, HELD))


def _prepared(job: Job, run: Callable[..., Tensor], arguments: Sequence[Tensor], **facts: Any) -> Prepared:
    """A call of `run`, traced once into a graph unless the variant is eager.

    The inputs are arguments, so that the graph optimiser cannot compute the result ahead. A graph on CPU
    returns when its result exists: nothing is left to wait for.
    """
    if job.variant != EAGER:
        run = tf.function(run, autograph=False)
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


def _is_depthwise(spec: ops.Conv2d) -> bool:
    """tf.nn.depthwise_conv2d takes square strides and no dilation."""
    is_square = spec.stride[0] == spec.stride[1]
    return 1 < spec.groups == spec.in_channels and is_square and spec.dilation == (1, 1)


def _refuse_conv2d(implementation: Implementation, spec: ops.Conv2d) -> str:
    if spec.direction == FORWARD:
        return ""
    if spec.dilation != (1, 1):
        return f"TensorFlow's CPU gradient kernels take no dilation, got {spec.dilation[0]}x{spec.dilation[1]}"
    if spec.groups > 1 and not _is_depthwise(spec):
        return f"TensorFlow has no gradient of grouped convolution on CPU, got groups {spec.groups}"
    return ""


def _weights(spec: ops.Conv2d, w: Array) -> Array:
    """[out, in/groups, h, w] as TensorFlow's HWIO, or [h, w, in, multiplier] for a depthwise convolution."""
    hwio = w.transpose(2, 3, 1, 0)
    if _is_depthwise(spec):
        hwio = hwio.reshape(*spec.kernel_size, spec.in_channels, -1)
    return np.ascontiguousarray(hwio)


@ADAPTER.operator("conv2d", _refuse_conv2d)
def _conv2d(job: Job, spec: ops.Conv2d) -> Prepared:
    if spec.direction != FORWARD:
        return _conv2d_gradient(job, spec)
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


def _conv2d_gradient(job: Job, spec: ops.Conv2d) -> Prepared:
    word, numbers = explicit_padding(spec.window)
    geometry: dict[str, Any] = {"strides": [1, *spec.stride, 1], "dilations": [1, *spec.dilation, 1]}
    geometry |= {"padding": word, "explicit_paddings": numbers}
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

    def to_numpy(result: Tensor) -> Array:
        hwio = result.numpy().reshape(*spec.kernel_size, spec.in_channels // spec.groups, spec.out_channels)
        return np.ascontiguousarray(hwio.transpose(3, 2, 0, 1))

    facts = {"layout": reported_layout(spec.layout, HELD), "note": "the gradient comes out as HWIO"}
    return _prepared(job, run_filter, [_images(job, spec, "x"), _images(job, spec, "dy")], to_numpy=to_numpy, **facts)


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: ops.MatMul) -> Prepared:

    def run(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        c = tf.linalg.matmul(a, b, transpose_a=spec.transpose_a, transpose_b=spec.transpose_b)
        c = c if bias is None else tf.nn.bias_add(c, bias)
        return tf.nn.relu(c) if spec.activation == "relu" else c

    return _prepared(job, run, [tf.constant(array) for array in job.arrays("a", "b", "bias")])


def _pool2d_gradient(job: Job, spec: ops.Pool2d) -> Prepared:
    """TensorFlow's own gradient kernels. That of a maximum needs the forward result: made ahead of the call, as in
    training, where the forward pass has it."""
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


def _refuse_pool2d(implementation: Implementation, spec: ops.Pool2d) -> str:
    if spec.direction == FORWARD or spec.mode == MAX or padding_word(spec.window):
        return ""
    return "TensorFlow's AvgPoolGrad knows padding SAME and VALID only"


@ADAPTER.operator("pool2d", _refuse_pool2d)
def _pool2d(job: Job, spec: ops.Pool2d) -> Prepared:
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    arguments = [_images(job, spec, "x")]
    if spec.mode == MAX:
        padding = padding_of(spec.window)
        return _image_prepared(
            job, spec, lambda x: tf.nn.max_pool2d(x, spec.kernel_size, spec.stride, padding), arguments
        )
    factors = average_factors(spec)
    note = "explicit padding: tf.pad, avg_pool2d and rescaling inside the call" if factors else ""
    arguments += map(tf.constant, factors)
    return _image_prepared(job, spec, lambda x, *factors: average_pool(spec, x, *factors), arguments, note)


def average_factors(spec: ops.Pool2d) -> list[Array]:
    """The additional input of `average_pool`: nothing where TensorFlow's word for the padding exists."""
    if padding_word(spec.window):
        return []
    full = spec.kernel_size[0] * spec.kernel_size[1]
    return [(full / spec.window.element_counts())[None, :, :, None].astype(spec.numpy_dtype)]


def average_pool(spec: ops.Pool2d, x: Tensor, *factors: Tensor) -> Tensor:
    """avg_pool2d knows only SAME and VALID: otherwise pad first, then undo the division by padded elements."""
    pool = tf.nn.avg_pool2d
    if not factors:
        return pool(x, spec.kernel_size, spec.stride, padding_of(spec.window))
    return pool(tf.pad(x, spec.window.pad_widths(HELD)), spec.kernel_size, spec.stride, "VALID") * factors[0]


def _refuse_lrn(implementation: Implementation, spec: ops.LocalResponseNorm) -> str:
    if spec.dtype != "float32":
        return f"tf.nn.local_response_normalization has no {spec.dtype} kernel"
    if spec.size % 2 == 0:
        return f"tf.nn.local_response_normalization sums depth_radius*2+1 channels: an odd size, got {spec.size}"
    return ""


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: ops.LocalResponseNorm) -> Prepared:
    radius, alpha = spec.size // 2, spec.alpha / spec.size
    if spec.direction != FORWARD:
        constants = {"depth_radius": radius, "bias": spec.k, "alpha": alpha, "beta": spec.beta}
        x = _images(job, spec, "x")
        y = tf.nn.local_response_normalization(x, **constants)
        return _image_prepared(
            job,
            spec,
            lambda x, y, dy: tf.raw_ops.LRNGrad(input_grads=dy, input_image=x, output_image=y, **constants),
            [x, y, _images(job, spec, "dy")],
            "LRNGrad; the forward result that it takes is made ahead of the call",
        )
    return _image_prepared(
        job,
        spec,
        lambda x: tf.nn.local_response_normalization(x, radius, spec.k, alpha, spec.beta),
        [_images(job, spec, "x")],
    )


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: ops.BiasRelu) -> Prepared:
    if spec.direction != FORWARD:
        images = [_images(job, spec, "y"), _images(job, spec, "dy")]
        if spec.direction == INPUT_GRADIENT:
            return _image_prepared(job, spec, lambda y, dy: tf.raw_ops.ReluGrad(gradients=dy, features=y), images)

        def by_bias(y: Tensor, dy: Tensor) -> Tensor:
            return tf.raw_ops.BiasAddGrad(out_backprop=tf.raw_ops.ReluGrad(gradients=dy, features=y))

        return _prepared(job, by_bias, images, layout=reported_layout(spec.layout, HELD))
    arguments = [_images(job, spec, "x"), tf.constant(job.inputs["b"])]
    return _image_prepared(job, spec, lambda x, b: tf.nn.relu(tf.nn.bias_add(x, b)), arguments)


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: ops.Softmax) -> Prepared:
    if spec.direction != FORWARD:
        operator = tf.raw_ops.SoftmaxCrossEntropyWithLogits
        note = "SoftmaxCrossEntropyWithLogits, which makes the loss as well"
        return _prepared(
            job, lambda x, labels: operator(features=x, labels=labels).backprop, _constants(job, spec), note=note
        )
    return _prepared(job, lambda x: tf.nn.softmax(x, axis=-1), [tf.constant(job.inputs["x"])])


def _constants(job: Job, spec: Any) -> list[Tensor]:
    return [tf.constant(job.inputs[name]) for name in spec.input_shapes()]


def activated(function: str, x: Tensor) -> Tensor:
    """By the function's name; two are formulas, since TensorFlow's hard_sigmoid is another one."""
    if function == SCALED_TANH:
        return TANH_HEIGHT * tf.tanh(TANH_SLOPE * x)
    if function == HARD_SIGMOID:
        return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)
    if function == GELU and x.dtype != tf.float64:
        return tf.nn.gelu(x, approximate=False)
    if function == GELU:  # its constants are float32 numbers
        return 0.5 * x * (1.0 + tf.math.erf(0.5**0.5 * x))
    return {RELU: tf.nn.relu, TANH: tf.tanh, SIGMOID: tf.sigmoid}[function](x)


@ADAPTER.operator("activation")
def _activation(job: Job, spec: ops.Activation) -> Prepared:
    if spec.direction == FORWARD:
        return _prepared(job, lambda x: activated(spec.function, x), _constants(job, spec))

    def gradient(x: Tensor, dy: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = activated(spec.function, x)
        return tape.gradient(y, x, dy)

    return _prepared(job, gradient, _constants(job, spec), note="tf.GradientTape: forward and backward in the call")


@ADAPTER.operator("add")
def _add(job: Job, spec: ops.Add) -> Prepared:
    return _prepared(job, tf.add, _constants(job, spec))


@ADAPTER.operator("dropout")
def _dropout(job: Job, spec: ops.Dropout) -> Prepared:
    note = "a product with the given mask: TensorFlow's own dropout draws one"
    return _prepared(job, tf.multiply, _constants(job, spec), note=note)


def _refuse_batch_norm(implementation: Implementation, spec: ops.BatchNorm) -> str:
    return "" if spec.dtype == "float32" else f"the rows call FusedBatchNormV3, which has no {spec.dtype} kernel on CPU"


@ADAPTER.operator("batch_norm", _refuse_batch_norm)
def _batch_norm(job: Job, spec: ops.BatchNorm) -> Prepared:
    raw, epsilon = tf.raw_ops, spec.epsilon
    x, given = _images(job, spec, "x"), [tf.constant(array) for array in job.arrays("scale", "shift")]
    nothing = tf.zeros([0])
    if spec.direction == FORWARD:
        is_training = spec.mode != INFERENCE
        statistics = [tf.constant(array) for array in job.arrays("mean", "variance")] or [nothing, nothing]

        def forward(x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
            return raw.FusedBatchNormV3(
                x=x, scale=scale, offset=shift, mean=mean, variance=variance, epsilon=epsilon, is_training=is_training
            )[0]

        return _image_prepared(job, spec, forward, [x, *given, *statistics])
    by_parameters = spec.direction == PARAMETER_GRADIENT
    scale = tf.ones([spec.channels]) if by_parameters else given[0]
    statistics = raw.FusedBatchNormV3(
        x=x, scale=scale, offset=tf.zeros([spec.channels]), mean=nothing, variance=nothing, epsilon=epsilon
    )[3:]

    def backward(x: Tensor, dy: Tensor, scale: Tensor, *statistics: Tensor) -> Any:
        kept = {f"reserve_space_{i + 1}": value for i, value in enumerate(statistics)}
        found = raw.FusedBatchNormGradV3(y_backprop=dy, x=x, scale=scale, epsilon=epsilon, **kept)
        return tf.stack(found[1:3]) if by_parameters else found[0]

    arguments = [x, _images(job, spec, "dy"), scale, *statistics]
    note = "the forward pass's statistics are made ahead of the call"
    if by_parameters:
        return _prepared(job, backward, arguments, note=note, layout=reported_layout(spec.layout, HELD))
    return _image_prepared(job, spec, backward, arguments, note)


@ADAPTER.operator("layer_norm")
def _layer_norm(job: Job, spec: ops.LayerNorm) -> Prepared:
    def forward(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        mean, variance = tf.nn.moments(x, [1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, spec.epsilon)

    def by_input(x: Tensor, scale: Tensor, dy: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x, scale, tf.zeros_like(scale))
        return tape.gradient(y, x, dy)

    def by_parameters(x: Tensor, dy: Tensor) -> Tensor:
        scale, shift = tf.ones_like(x[0]), tf.zeros_like(x[0])
        with tf.GradientTape() as tape:
            tape.watch([scale, shift])
            y = forward(x, scale, shift)
        return tf.stack(tape.gradient(y, [scale, shift], dy))

    ways: dict[str, Any] = {FORWARD: forward, INPUT_GRADIENT: by_input, PARAMETER_GRADIENT: by_parameters}
    note = "composed: tf.nn.moments and batch_normalization"
    note += "" if spec.direction == FORWARD else "; tf.GradientTape: forward and backward in the call"
    return _prepared(job, ways[spec.direction], _constants(job, spec), note=note)


@ADAPTER.operator("embedding")
def _embedding(job: Job, spec: ops.Embedding) -> Prepared:
    if spec.direction == FORWARD:
        return _prepared(job, lambda indices, table: tf.gather(table, indices), _constants(job, spec))
    return _prepared(
        job,
        lambda indices, dy: tf.math.unsorted_segment_sum(dy, indices, spec.vocabulary),
        _constants(job, spec),
    )


def _refuse_lstm(implementation: Implementation, spec: ops.Lstm) -> str:
    if spec.dtype != "float32":
        return f"TensorFlow's BlockLSTMV2 has no {spec.dtype} kernel on CPU"
    if spec.direction == GATE_GRADIENT:
        return "TensorFlow's BlockLSTMGradV2 does not give the gradient by the gates' sums"
    if (spec.activation, spec.recurrent_activation) == (TANH, SIGMOID):
        return ""
    return (
        f"TensorFlow's BlockLSTMV2 has sigmoid gates and tanh, not {spec.recurrent_activation} and {spec.activation}: "
        "keras has"
    )


@ADAPTER.operator("lstm", _refuse_lstm)
def _lstm(job: Job, spec: ops.Lstm) -> Prepared:
    """BlockLSTMV2 takes the steps first, and both matrices as one, in the spec's order of gates."""
    x = tf.constant(np.ascontiguousarray(job.inputs["x"].swapaxes(0, 1)))
    w, b = tf.constant(np.concatenate(job.arrays("w", "u"))), tf.constant(job.inputs["b"])
    state, peephole = tf.zeros([spec.batch, spec.cells]), tf.zeros([spec.cells])
    others = dict.fromkeys(("cs_prev", "h_prev"), state) | dict.fromkeys(("wci", "wcf", "wco"), peephole)
    others["seq_len_max"] = tf.constant(spec.steps, tf.int64)

    def forward(x: Tensor, w: Tensor, b: Tensor) -> Any:
        return tf.raw_ops.BlockLSTMV2(x=x, w=w, b=b, **others)

    def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        h = forward(x, w, b).h
        return h if spec.returns_sequence else h[-1]

    def sequence_first(result: Tensor) -> Array:
        return np.ascontiguousarray(result.numpy().swapaxes(0, 1))

    note = "steps before the batch in x and y"
    if spec.direction == FORWARD:
        facts: dict[str, Any] = {"to_numpy": sequence_first} if spec.returns_sequence else {}
        return _prepared(job, run, [x, w, b], note=f"BlockLSTMV2; {note}", **facts)
    return _lstm_gradient(job, spec, [x, w, b, *forward(x, w, b)], others, note)


def _lstm_gradient(job: Job, spec: ops.Lstm, made: list[Tensor], others: dict[str, Tensor], note: str) -> Prepared:
    """BlockLSTMGradV2 on what the forward pass made ahead of the call."""
    dy = job.inputs["dy"]
    of_steps = np.zeros((spec.steps, spec.batch, spec.cells), np.float32)
    of_steps[slice(None) if spec.returns_sequence else -1] = dy.swapaxes(0, 1) if spec.returns_sequence else dy
    names = ("x", "w", "b", "i", "cs", "f", "o", "ci", "co", "h", "h_grad")

    def run(*arrays: Tensor) -> Tensor:
        given = dict(zip(names, arrays))
        found = tf.raw_ops.BlockLSTMGradV2(
            **given, cs_grad=tf.zeros_like(given["h_grad"]), use_peephole=False, **others
        )
        if spec.direction == WEIGHT_GRADIENT:
            return tf.concat([found.w_grad, found.b_grad[None]], 0)
        if spec.direction == STATE_GRADIENT:
            return tf.stack([found.h_prev_grad, found.cs_prev_grad])
        return found.x_grad

    def to_numpy(result: Tensor) -> Array:
        array = result.numpy()
        return np.ascontiguousarray(array.swapaxes(0, 1)) if spec.direction == INPUT_GRADIENT else array

    notes = f"BlockLSTMGradV2; the forward pass is made ahead of the call; {note}"
    return _prepared(job, run, [*made, tf.constant(of_steps)], to_numpy=to_numpy, note=notes)


@ADAPTER.operator("attention")
def _attention(job: Job, spec: ops.Attention) -> Prepared:
    shape, scale = (spec.batch, spec.steps, spec.heads, spec.width), spec.width**-0.5

    def run(*arrays: Tensor) -> Tensor:
        q, k, v = (tf.transpose(tf.reshape(array, shape), (0, 2, 1, 3)) for array in arrays)
        scores = tf.linalg.matmul(q * tf.constant(scale, q.dtype), k, transpose_b=True)
        if spec.causal:
            seen = tf.linalg.band_part(tf.ones((spec.steps, spec.steps), tf.bool), -1, 0)
            scores = tf.where(seen, scores, scores.dtype.min)
        y = tf.linalg.matmul(tf.nn.softmax(scores), v)
        return tf.reshape(tf.transpose(y, (0, 2, 1, 3)), spec.result_shape())

    def gradient(*arrays: Tensor) -> Tensor:
        given = list(arrays[:3])
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = run(*given)
        return tf.stack(tape.gradient(y, given, arrays[3]))

    note = "composed: products, softmax and transposes"
    if spec.direction == FORWARD:
        return _prepared(job, run, _constants(job, spec), note=note)
    taped = f"{note}; tf.GradientTape: forward and backward in the call"
    return _prepared(job, gradient, _constants(job, spec), note=taped)


@ADAPTER.operator("optimiser_step")
def _optimiser_step(job: Job, spec: ops.OptimiserStep) -> Prepared:
    module = Module(tf, tf.math.erf, tf.math.unsorted_segment_sum)
    note = "composed into new tensors: its own optimisers change theirs in place"
    return _prepared(job, formula(module, spec), _constants(job, spec), note=note)
