"""Arrays as torch's tensors and back: devices, bfloat16, memory formats. What all torch rows share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Prepared
from profkit.frameworks.framework import Job, quiet_warnings, reported_layout
from profkit.ops.dtypes import numpy_dtype

CHANNELS_LAST = "channels_last"
Tensor = Any


def tensor_of(job: Job, name: str) -> Tensor:
    """An input as a tensor on the implementation's device; on the CPU it has the same bytes."""
    return to_tensor(job.inputs[name]).to(job.implementation.device)


def to_tensor(array: Array) -> Tensor:
    """The same bytes as a tensor. NumPy has no bfloat16 of its own: such bytes cross as whole numbers."""
    torch = importlib.import_module("torch")
    with quiet_warnings():
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def to_array(tensor: Tensor) -> Array:
    """The tensor's values as NumPy's, from whatever device."""
    torch = importlib.import_module("torch")
    tensor = tensor.cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        array: Array = tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
        return array
    values: Array = tensor.numpy()
    return values


def held_layout(job: Job, spec: Any) -> str:
    """The order in which this implementation holds its images."""
    return "NHWC" if job.variant == CHANNELS_LAST else str(spec.layout)


def images_of(job: Job, spec: Any, name: str) -> Tensor:
    """An image input seen as NCHW; NHWC bytes become a channels_last view, no copy."""
    tensor = tensor_of(job, name)
    if spec.layout == "NHWC":
        return tensor.permute(0, 3, 1, 2)
    return formatted(job, spec, tensor)


def formatted(job: Job, spec: Any, tensor: Tensor) -> Tensor:
    """A tensor in the memory format in which this implementation holds its images."""
    torch = importlib.import_module("torch")
    if held_layout(job, spec) == "NHWC":
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def image_result(spec: Any) -> Callable[[Tensor], Array]:
    """Logical NCHW tensors back to the spec's layout."""

    def convert(result: Tensor) -> Array:
        return to_array(result.permute(0, 2, 3, 1) if spec.layout == "NHWC" else result)

    return convert


def prepared_images(job: Job, spec: Any, call: Callable[[], Tensor], note: str = "") -> Prepared:
    """A call that gives images."""
    layout = reported_layout(spec.layout, held_layout(job, spec))
    return Prepared(call, image_result(spec), layout=layout, note=note)
