"""ONNX Runtime on CPU: one small model per spec, built here; images are held as NCHW, weights are prepacked.

Weights are initialisers, as in every exported model, so that the session packs them when it is created.
Session options stay as they ship (idle threads spin for a while after a run): measurement stops idle workers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared, aligned_empty
from profkit.frameworks.framework import Framework, Job, held_as, quiet_warnings, to_layout
from profkit.frameworks.onnxruntime.model import serialised, window_attributes
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.layout import image_shape
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import AVERAGE, MAX, Pool2d
from profkit.ops.softmax import Softmax

HELD = "NCHW"
OPSET, IR_VERSION = 17, 8
"""Old enough for any runtime of the last years; newer sets add nothing that these operators need."""


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    runtime = importlib.import_module("onnxruntime")
    onnx = importlib.import_module("onnx")
    runtime.set_default_logger_severity(4)
    return {
        "version": str(runtime.__version__),
        "onnx": str(onnx.__version__),
        "opset": str(OPSET),
        "providers": ", ".join(runtime.get_available_providers()),
        "provider": "CPUExecutionProvider",
        "build": str(runtime.get_build_info()) if hasattr(runtime, "get_build_info") else "unknown",
        "threads": str(conditions.threads),
    }


ADAPTER = Framework("onnxruntime", _begin, modules=("onnxruntime", "onnx"))


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    return importlib.import_module("onnx").helper.make_node(kind, list(inputs), [output], **attributes)


def _model(
    nodes: Sequence[Any], inputs: Mapping[str, Array], weights: Mapping[str, Array], shape: Sequence[int]
) -> bytes:
    """A serialised model with one output `y`."""
    onnx = importlib.import_module("onnx")
    element = onnx.helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    value = onnx.helper.make_tensor_value_info
    return serialised(
        onnx.helper.make_graph(
            list(nodes),
            "profkit",
            [value(name, element, array.shape) for name, array in inputs.items()],
            [value("y", element, list(shape))],
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
        return Prepared(lambda: session.run(["y"], feed)[0], lambda result: result, note=note)
    out = aligned_empty(shape, next(iter(inputs.values())).dtype)
    return Prepared(_bound_call(session, feed, out), lambda result: result, output="reused", note=note)


def new_session(model: bytes, threads: int, **options: Any) -> Any:
    """A session on the CPU with this many threads; `options` are further attributes of SessionOptions."""
    runtime = importlib.import_module("onnxruntime")
    settings = runtime.SessionOptions()
    for name, value in {"intra_op_num_threads": threads, "inter_op_num_threads": 1, **options}.items():
        setattr(settings, name, value)
    with quiet_warnings():
        return runtime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


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


def _refuse_conv2d(implementation: Implementation, spec: Conv2d) -> str:
    if spec.direction == WEIGHT_GRADIENT:
        return "the ONNX operator set has no weight gradient of a convolution"
    return _refuse_float64("Conv" if spec.direction != INPUT_GRADIENT else "ConvTranspose", spec)


def _refuse_float64(kind: str, spec: Any) -> str:
    return f"onnxruntime has no float64 {kind} kernel on CPU" if spec.dtype == "float64" else ""


@ADAPTER.operator("conv2d", _refuse_conv2d)
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    geometry = {
        "kernel_shape": spec.kernel_size,
        "strides": spec.stride,
        "dilations": spec.dilation,
        "group": spec.groups,
        "pads": [*spec.window.pads[::2], *spec.window.pads[1::2]],
    }
    if spec.direction == INPUT_GRADIENT:
        return _conv2d_input_gradient(job, spec, geometry)
    weights = {name: job.inputs[name] for name in ("w", "b") if name in job.inputs}
    relu = spec.activation == "relu"
    nodes = [_node("Conv", ["x", *weights], "sums" if relu else "y", **geometry)]
    nodes += [_node("Relu", ["sums"], "y")] if relu else []
    shape = image_shape(HELD, spec.batch, spec.out_channels, spec.window.out_size)
    return _image_prepared(job, spec, nodes, "x", shape, weights)


def _conv2d_input_gradient(job: Job, spec: Conv2d, geometry: Mapping[str, Any]) -> Prepared:
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
def _matmul(job: Job, spec: MatMul) -> Prepared:
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


def _batched_matmul(job: Job, spec: MatMul) -> Prepared:
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


def _refuse_pool2d(implementation: Implementation, spec: Pool2d) -> str:
    if spec.direction != FORWARD:
        return "the ONNX operator set has no gradient of pooling"
    return _refuse_float64("AveragePool", spec) if spec.mode == AVERAGE else ""


@ADAPTER.operator("pool2d", _refuse_pool2d)
def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    kind = "MaxPool" if spec.mode == MAX else "AveragePool"
    shape = image_shape(HELD, spec.batch, spec.channels, spec.window.out_size)
    return _image_prepared(job, spec, [_node(kind, ["x"], "y", **window_attributes(spec.window))], "x", shape)


def _refuse_lrn(implementation: Implementation, spec: LocalResponseNorm) -> str:
    if spec.size % 2 == 0:
        return f"onnxruntime's LRN takes an odd size, got {spec.size}"
    return _refuse_float64("LRN", spec)


@ADAPTER.operator("lrn", _refuse_lrn)
def _lrn(job: Job, spec: LocalResponseNorm) -> Prepared:
    node = _node("LRN", ["x"], "y", size=spec.size, alpha=spec.alpha, beta=spec.beta, bias=spec.k)
    shape = image_shape(HELD, spec.batch, spec.channels, (spec.height, spec.width))
    return _image_prepared(job, spec, [node], "x", shape)


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    """Elementwise, hence in the spec's own layout."""
    bias = job.inputs["b"].reshape((-1, 1, 1) if spec.layout == "NCHW" else (-1,))
    nodes = [_node("Add", ["x", "b"], "sums"), _node("Relu", ["sums"], "y")]
    prepared = _prepared(job, nodes, {"x": job.inputs["x"]}, spec.output_shape(), {"b": bias})
    prepared.note = ""
    return prepared


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    return _prepared(job, [_node("Softmax", ["x"], "y", axis=1)], {"x": job.inputs["x"]}, spec.output_shape())
