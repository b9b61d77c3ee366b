"""ONNX Runtime on CPU: one small model per spec, built here; images are held as NCHW, weights are prepacked.

Weights are initialisers, as in every exported model, so that the session packs them when it is created.
Session options stay as they ship (idle threads spin for a while after a run): measurement stops idle workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit import ops
from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared, aligned_empty
from profkit.frameworks.framework import Framework, Job, quiet_warnings
from profkit.frameworks.layouts import held_as, to_layout
from profkit.frameworks.lazy import onnx, onnxruntime
from profkit.frameworks.onnxruntime.model import serialised, window_attributes
from profkit.ops.activation import GELU, HARD_SIGMOID, RELU, SCALED_TANH, SIGMOID, TANH, TANH_HEIGHT, TANH_SLOPE
from profkit.ops.batch_norm import INFERENCE
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.layout import image_shape
from profkit.ops.pool2d import AVERAGE, MAX

HELD = "NCHW"
OPSET, IR_VERSION = 17, 8
"""Old enough for any runtime of the last years; newer sets add nothing that these operators need."""


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    onnxruntime.set_default_logger_severity(4)
    return {
        "version": str(onnxruntime.__version__),
        "onnx": str(onnx.__version__),
        "opset": str(OPSET),
        "providers": ", ".join(onnxruntime.get_available_providers()),
        "provider": "CPUExecutionProvider",
        "build": str(onnxruntime.get_build_info()) if hasattr(onnxruntime, "get_build_info") else "unknown",
        "threads": str(conditions.threads),
    }


ADAPTER = Framework("onnxruntime", _begin, modules=("onnxruntime", "onnx"))


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, list(inputs), [output], **attributes)


def _model(
    nodes: Sequence[Any], inputs: Mapping[str, Array], weights: Mapping[str, Array], shape: Sequence[int]
) -> bytes:
    """A serialised model with one output `y`."""
    element, value = onnx.helper.np_dtype_to_tensor_dtype, onnx.helper.make_tensor_value_info
    # Indices are of another type than what they choose.
    dtype = next(array.dtype for array in [*inputs.values(), *weights.values()] if array.dtype.kind == "f")
    return serialised(
        onnx.helper.make_graph(
            list(nodes),
            "profkit",
            [value(name, element(array.dtype), array.shape) for name, array in inputs.items()],
            [value("y", element(dtype), list(shape))],
            [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
        ),
        OPSET,
        IR_VERSION,
    )


def _prepared(
    job: Job,
    nodes: Sequence[Any],
    inputs: Mapping[str, Array],
    shape: Sequence[int],
    weights: Mapping[str, Array] | None = None,
) -> Prepared:
    """A session and the call that runs it; `shape` is the model's own output shape."""
    session = new_session(_model(nodes, inputs, weights or {}, shape), job.conditions.threads)
    note = "weights prepacked when the session is created" if weights else ""
    feed = dict(inputs)
    if not job.reuses_output:
        return Prepared(lambda: session.run(["y"], feed)[0], note=note)
    dtype = next(array.dtype for array in [*inputs.values(), *(weights or {}).values()] if array.dtype.kind == "f")
    out = aligned_empty(shape, dtype)
    return Prepared(_bound_call(session, feed, out), output="reused", note=note)


def new_session(model: bytes, threads: int, **options: Any) -> Any:
    """A session on the CPU with this many threads; `options` are further attributes of SessionOptions."""
    settings = onnxruntime.SessionOptions()
    for name, value in {"intra_op_num_threads": threads, "inter_op_num_threads": 1, **options}.items():
        setattr(settings, name, value)
    with quiet_warnings():
        return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def _bound_call(session: Any, feed: Mapping[str, Array], out: Array) -> Callable[[], Array]:
    """Input and output memory bound once, so that a run writes into the same array."""
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y", "cpu", 0, out.dtype, out.shape, out.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return out

    return call


def _image_prepared(
    job: Job,
    spec: Any,
    nodes: Sequence[Any],
    name: str,
    shape: Sequence[int],
    weights: Mapping[str, Array] | None = None,
) -> Prepared:
    """As `_prepared`, for a model over NCHW images whose first input is the spec's input `name`."""
    inputs = {"x": to_layout(job.inputs[name], spec.layout, HELD)}
    return held_as(HELD, _prepared(job, nodes, inputs, shape, weights), spec)


def _refuse_conv2d(implementation: Implementation, spec: ops.Conv2d) -> str:
    if spec.direction == WEIGHT_GRADIENT:
        return "the ONNX operator set has no weight gradient of a convolution"
    return _refuse_float64("Conv" if spec.direction != INPUT_GRADIENT else "ConvTranspose", spec)


def _refuse_float64(kind: str, spec: Any) -> str:
    return f"onnxruntime has no float64 {kind} kernel on CPU" if spec.dtype == "float64" else ""


@ADAPTER.operator("conv2d", _refuse_conv2d)
def _conv2d(job: Job, spec: ops.Conv2d) -> Prepared:
    pads = [*spec.window.pads[::2], *spec.window.pads[1::2]]
    geometry = {**window_attributes(spec.window, dilations=True), "group": spec.groups, "pads": pads}
    if spec.direction == INPUT_GRADIENT:
        return _conv2d_input_gradient(job, spec, geometry)
    weights = {name: job.inputs[name] for name in ("w", "b") if name in job.inputs}
    relu = spec.activation == "relu"
    nodes = [_node("Conv", ["x", *weights], "sums" if relu else "y", **geometry)]
    nodes += [_node("Relu", ["sums"], "y")] if relu else []
    shape = image_shape(HELD, spec.batch, spec.out_channels, spec.window.out_size)
    return _image_prepared(job, spec, nodes, "x", shape, weights)


def _conv2d_input_gradient(job: Job, spec: ops.Conv2d, geometry: Mapping[str, Any]) -> Prepared:
    """The input gradient is a transposed convolution; output_padding restores rows that no filter reached."""
    window = spec.window
    reached = [
        (out - 1) * stride + dilation * (kernel - 1) + 1
        for out, stride, dilation, kernel in zip(window.out_size, spec.stride, spec.dilation, spec.kernel_size)
    ]
    rest = [padded - end for padded, end in zip(window.padded_size, reached)]
    node = _node("ConvTranspose", ["x", "w"], "y", output_padding=rest, **geometry)
    shape = image_shape(HELD, spec.batch, spec.in_channels, (spec.height, spec.width))
    prepared = _image_prepared(job, spec, [node], "dy", shape, {"w": job.inputs["w"]})
    prepared.note = f"ConvTranspose; {prepared.note}"
    return prepared


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: ops.MatMul) -> Prepared:
    if spec.batch > 1:
        return _batched_matmul(job, spec)
    weights = {name: job.inputs[name] for name in ("b", "bias") if name in job.inputs}
    relu = spec.activation == "relu"
    transposes = {"transA": int(spec.transpose_a), "transB": int(spec.transpose_b)}
    nodes = [_node("Gemm", ["a", *weights], "sums" if relu else "y", **transposes)]
    nodes += [_node("Relu", ["sums"], "y")] if relu else []
    prepared = _prepared(job, nodes, {"a": job.inputs["a"]}, spec.output_shape(), weights)
    prepared.note = "b is a weight: prepacked when the session is created"
    return prepared


def _batched_matmul(job: Job, spec: ops.MatMul) -> Prepared:
    names, nodes = [], []
    for name, transposed in (("a", spec.transpose_a), ("b", spec.transpose_b)):
        names.append(f"{name}_t" if transposed else name)
        nodes += [_node("Transpose", [name], f"{name}_t", perm=[0, 2, 1])] if transposed else []
    steps = [("MatMul", names)]
    steps += [("Add", ["Add_input", "bias"])] if spec.bias else []
    steps += [("Relu", ["Relu_input"])] if spec.activation == "relu" else []
    outputs = [f"{kind}_input" for kind, _ in steps[1:]] + ["y"]
    nodes += [_node(kind, taken, output) for (kind, taken), output in zip(steps, outputs)]
    weights = {"bias": job.inputs["bias"]} if spec.bias else {}
    prepared = _prepared(job, nodes, {"a": job.inputs["a"], "b": job.inputs["b"]}, spec.output_shape(), weights)
    prepared.note = "a and b are both inputs: nothing prepacked"
    return prepared


def _refuse_pool2d(implementation: Implementation, spec: ops.Pool2d) -> str:
    if spec.direction != FORWARD:
        return "the ONNX operator set has no gradient of pooling"
    return _refuse_float64("AveragePool", spec) if spec.mode == AVERAGE else ""


@ADAPTER.operator("pool2d", _refuse_pool2d)
def _pool2d(job: Job, spec: ops.Pool2d) -> Prepared:
    kind = "MaxPool" if spec.mode == MAX else "AveragePool"
    shape = image_shape(HELD, spec.batch, spec.channels, spec.window.out_size)
    return _image_prepared(job, spec, [_node(kind, ["x"], "y", **window_attributes(spec.window))], "x", shape)


def _refuse_gradient(implementation: Implementation, spec: Any) -> str:
    return "" if spec.direction == FORWARD else f"the ONNX operator set has no gradient of {spec.op}"


def _refuse_lrn(implementation: Implementation, spec: ops.LocalResponseNorm) -> str:
    if spec.direction != FORWARD:
        return _refuse_gradient(implementation, spec)
    if spec.size % 2 == 0:
        return f"onnxruntime's LRN takes an odd size, got {spec.size}"
    return _refuse_float64("LRN", spec)


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: ops.LocalResponseNorm) -> Prepared:
    node = _node("LRN", ["x"], "y", size=spec.size, alpha=spec.alpha, beta=spec.beta, bias=spec.k)
    shape = image_shape(HELD, spec.batch, spec.channels, (spec.height, spec.width))
    return _image_prepared(job, spec, [node], "x", shape)


@ADAPTER.operator("bias_relu", _refuse_gradient)
def _bias_relu(job: Job, spec: ops.BiasRelu) -> Prepared:
    """Elementwise, so in the spec's layout."""
    bias = job.inputs["b"].reshape((-1, 1, 1) if spec.layout == "NCHW" else (-1,))
    nodes = [_node("Add", ["x", "b"], "sums"), _node("Relu", ["sums"], "y")]
    prepared = _prepared(job, nodes, {"x": job.inputs["x"]}, spec.output_shape(), {"b": bias})
    prepared.note = ""
    return prepared


@ADAPTER.operator("softmax", _refuse_gradient)
def _softmax(job: Job, spec: ops.Softmax) -> Prepared:
    return _prepared(job, [_node("Softmax", ["x"], "y", axis=1)], {"x": job.inputs["x"]}, spec.output_shape())


def _scalar(spec: Any, value: float) -> Array:
    return np.array(value, spec.numpy_dtype)


def _refuse_activation(implementation: Implementation, spec: ops.Activation) -> str:
    if spec.direction != FORWARD:
        return _refuse_gradient(implementation, spec)
    lacking = {GELU: "Erf", HARD_SIGMOID: "HardSigmoid"}
    return _refuse_float64(lacking[spec.function], spec) if spec.function in lacking else ""


@ADAPTER.operator("activation", _refuse_activation)
def _activation(job: Job, spec: ops.Activation) -> Prepared:
    function, weights = spec.function, {}
    if function == SCALED_TANH:
        steps = (("Mul", ["x", "slope"], "sloped"), ("Tanh", ["sloped"], "tanh"), ("Mul", ["tanh", "high"], "y"))
        nodes = [_node(*step) for step in steps]
        weights = {"slope": _scalar(spec, TANH_SLOPE), "high": _scalar(spec, TANH_HEIGHT)}
    elif function == GELU:
        nodes = [
            _node("Div", ["x", "root"], "scaled"),
            _node("Erf", ["scaled"], "erf"),
            _node("Add", ["erf", "one"], "raised"),
            _node("Mul", ["x", "raised"], "doubled"),
            _node("Mul", ["doubled", "half"], "y"),
        ]
        weights = {"root": _scalar(spec, 2.0**0.5), "one": _scalar(spec, 1.0), "half": _scalar(spec, 0.5)}
    else:
        kind = {RELU: "Relu", TANH: "Tanh", SIGMOID: "Sigmoid", HARD_SIGMOID: "HardSigmoid"}[function]
        nodes = [_node(kind, ["x"], "y")]
    prepared = _prepared(job, nodes, {"x": job.inputs["x"]}, spec.output_shape(), weights)
    prepared.note = "composed, as exporters write it; the runtime may fuse it" if weights else ""
    return prepared


@ADAPTER.operator("add")
def _add(job: Job, spec: ops.Add) -> Prepared:
    return _prepared(job, [_node("Add", ["a", "b"], "y")], dict(job.inputs), spec.output_shape())


@ADAPTER.operator("dropout")
def _dropout(job: Job, spec: ops.Dropout) -> Prepared:
    prepared = _prepared(job, [_node("Mul", ["x", "mask"], "y")], dict(job.inputs), spec.output_shape())
    prepared.note = "a product with the given mask: Dropout of ONNX draws one"
    return prepared


def _refuse_batch_norm(implementation: Implementation, spec: ops.BatchNorm) -> str:
    if spec.mode != INFERENCE:
        return f"onnxruntime without its training build has no {spec.mode} mode of BatchNormalization"
    return _refuse_epsilon(implementation, spec)


def _refuse_epsilon(implementation: Implementation, spec: Any) -> str:
    if spec.dtype == "float64":
        return "ONNX has epsilon as a float32 number, which is too coarse for a float64 result"
    return _refuse_gradient(implementation, spec)


@ADAPTER.operator("batch_norm", _refuse_batch_norm)
def _batch_norm(job: Job, spec: ops.BatchNorm) -> Prepared:
    names = ("scale", "shift", "mean", "variance")
    node = _node("BatchNormalization", ["x", *names], "y", epsilon=spec.epsilon)
    shape = image_shape(HELD, spec.batch, spec.channels, (spec.height, spec.width))
    return _image_prepared(job, spec, [node], "x", shape, {name: job.inputs[name] for name in names})


@ADAPTER.operator("layer_norm", _refuse_epsilon)
def _layer_norm(job: Job, spec: ops.LayerNorm) -> Prepared:
    node = _node("LayerNormalization", ["x", "scale", "shift"], "y", axis=-1, epsilon=spec.epsilon)
    weights = {name: job.inputs[name] for name in ("scale", "shift")}
    return _prepared(job, [node], {"x": job.inputs["x"]}, spec.output_shape(), weights)


@ADAPTER.operator("embedding", _refuse_gradient)
def _embedding(job: Job, spec: ops.Embedding) -> Prepared:
    weights = {"table": job.inputs["table"]}
    prepared = _prepared(
        job,
        [_node("Gather", ["table", "indices"], "y")],
        {"indices": job.inputs["indices"]},
        spec.output_shape(),
        weights,
    )
    prepared.note = ""
    return prepared


def _refuse_lstm(implementation: Implementation, spec: ops.Lstm) -> str:
    return _refuse_gradient(implementation, spec) or _refuse_float64("LSTM", spec)


@ADAPTER.operator("lstm", _refuse_lstm)
def _lstm(job: Job, spec: ops.Lstm) -> Prepared:
    """ONNX takes the steps first and the gates in the order i, o, f, c; the line of hard_sigmoid is in attributes."""

    def gates(name: str) -> Array:
        parts = np.split(job.inputs[name], 4, axis=-1)
        ordered = np.concatenate([parts[i] for i in (0, 3, 1, 2)], axis=-1)
        return np.ascontiguousarray(ordered.T)[None]

    weights = {"w": gates("w"), "u": gates("u"), "b": np.concatenate([gates("b"), 0 * gates("b")], axis=1)}
    words = {TANH: "Tanh", SIGMOID: "Sigmoid", HARD_SIGMOID: "HardSigmoid"}
    functions = [words[spec.recurrent_activation], words[spec.activation], words[spec.activation]]
    is_hard = spec.recurrent_activation == HARD_SIGMOID
    options = {"activation_alpha": [0.2], "activation_beta": [0.5]} if is_hard else {}
    outputs = ["all", ""] if spec.returns_sequence else ["", "last"]
    node = onnx.helper.make_node(
        "LSTM", ["x", "w", "u", "b"], outputs, hidden_size=spec.cells, activations=functions, **options
    )
    # [steps, 1, batch, cells] or [1, batch, cells]
    drop = _node("Squeeze", ["all" if spec.returns_sequence else "last", "axis"], "y")
    weights["axis"] = np.array([1 if spec.returns_sequence else 0], np.int64)
    x = np.ascontiguousarray(job.inputs["x"].swapaxes(0, 1))
    shape = (spec.steps, *spec.output_shape()[::2]) if spec.returns_sequence else spec.output_shape()
    prepared = _prepared(job, [node, drop], {"x": x}, shape, weights)
    if spec.returns_sequence:
        prepared.to_numpy = lambda result: np.ascontiguousarray(result.swapaxes(0, 1))
    prepared.note += "; steps before the batch in x and y"
    return prepared


def _refuse_attention(implementation: Implementation, spec: ops.Attention) -> str:
    return _refuse_gradient(implementation, spec) or _refuse_float64("MultiHeadAttention", spec)


@ADAPTER.operator("attention", _refuse_attention)
def _attention(job: Job, spec: ops.Attention) -> Prepared:
    """onnxruntime's own operator, which takes the spec's arrays as they are."""
    node = _node(
        "MultiHeadAttention",
        ["q", "k", "v"],
        "y",
        domain="com.microsoft",
        num_heads=spec.heads,
        unidirectional=int(spec.causal),
    )
    return _prepared(job, [node], dict(job.inputs), spec.output_shape())


ADAPTER.lacks("optimiser_step", "the ONNX operator set for inference has no optimisers")
