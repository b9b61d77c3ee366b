"""PyTensor on CPU: compiled graphs of matrix products and elementwise operators; it has no batched convolution."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from profkit.backends.adapter import Conditions, Implementation, Prepared
from profkit.backends.framework import Framework, Job, Operator, channel_shape, missing, quiet_warnings
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.matmul import MatMul
from profkit.ops.softmax import Softmax

Variable = Any


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    with quiet_warnings():
        pytensor = importlib.import_module("pytensor")
        importlib.import_module("pytensor.tensor")
        config = pytensor.config
        flags = str(config.blas__ldflags)  # looked up, with warnings, on first access
    return {
        "version": str(pytensor.__version__),
        "linker": _linker(pytensor),
        "compiler": str(config.cxx) or "none found",
        "blas_flags": flags or "none: matrix products go through NumPy's BLAS",
    }


def _linker(pytensor: Any) -> str:
    """C where a compiler is found: it starts in a tenth of the time of the numba linker and ran no slower."""
    return "cvm" if pytensor.config.cxx else "numba"


def _variable(name: str, array: Any, spread: Sequence[int] = ()) -> Variable:
    """A symbolic input of any size, except for the dimensions along which it is spread.

    PyTensor must know those; fixing the others would only compile the same code again for other sizes.
    """
    tensor = importlib.import_module("pytensor.tensor")
    shape = tuple(1 if at in spread else None for at in range(array.ndim))
    return tensor.tensor(name, shape=shape, dtype=str(array.dtype))


def _prepared(inputs: Sequence[Variable], result: Variable, arrays: Sequence[Any]) -> Prepared:
    pytensor = importlib.import_module("pytensor")
    linker = _linker(pytensor)
    mode = importlib.import_module("pytensor.compile.mode").Mode(linker, "fast_run")
    with quiet_warnings():
        function = pytensor.function(list(inputs), result, mode=mode)
    note = f"linker {linker}" if pytensor.config.blas__ldflags else f"linker {linker}, no BLAS flags: products by NumPy"
    return Prepared(lambda: function(*arrays), np.asarray, note=note)


def _matmul(job: Job, spec: MatMul) -> Prepared:
    names = [name for name in ("a", "b", "bias") if name in job.inputs]
    variables = {name: _variable(name, job.inputs[name]) for name in names}
    a, b = variables["a"], variables["b"]
    a = a.swapaxes(-1, -2) if spec.transpose_a else a
    b = b.swapaxes(-1, -2) if spec.transpose_b else b
    c = a @ b
    result = c + variables["bias"] if spec.bias else c
    if spec.activation == "relu":
        result = importlib.import_module("pytensor.tensor").maximum(result, spec.numpy_dtype.type(0))
    return _prepared(list(variables.values()), result, [job.inputs[name] for name in names])


def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    tensor = importlib.import_module("pytensor.tensor")
    arrays = [job.inputs["x"], job.inputs["b"].reshape(channel_shape(spec.layout))]
    x, b = _variable("x", arrays[0]), _variable("b", arrays[1], spread=(1, 2))
    prepared = _prepared([x, b], tensor.maximum(x + b, spec.numpy_dtype.type(0)), arrays)
    prepared.note = prepared.note.split(",")[0]
    return prepared


def _softmax(job: Job, spec: Softmax) -> Prepared:
    special = importlib.import_module("pytensor.tensor.special")
    x = _variable("x", job.inputs["x"])
    prepared = _prepared([x], special.softmax(x, axis=1), [job.inputs["x"]])
    prepared.note = prepared.note.split(",")[0]
    return prepared


ADAPTER = Framework(
    name="pytensor",
    modules=("pytensor",),
    extra="pytensor",
    begin=_begin,
    operators={
        "conv2d": missing("PyTensor 3 has no batched two-dimensional convolution"),
        "matmul": Operator(_matmul),
        "pool2d": missing("PyTensor 3 has no pooling"),
        "lrn": missing("PyTensor has no local response normalisation"),
        "bias_relu": Operator(_bias_relu),
        "softmax": Operator(_softmax),
    },
)
