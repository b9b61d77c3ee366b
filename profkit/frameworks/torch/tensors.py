"""Arrays as torch's tensors and back: devices, bfloat16, memory formats. What all torch rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Prepared
from profkit.frameworks.framework import Job, quiet_warnings
from profkit.frameworks.layouts import reported_layout
from profkit.frameworks.lazy import Tensor, torch
from profkit.ops.dtypes import numpy_dtype

CHANNELS_LAST = "channels_last"


def tensor_of(job: Job, name: str) -> Tensor:
    """An input as a tensor on the implementation's device; on the CPU it has the same bytes.

    NumPy has no bfloat16: such bytes are passed as integers.
    """
    array, is_bfloat16 = job.inputs[name], job.inputs[name].dtype.name == "bfloat16"
    with quiet_warnings():
        tensor = torch.from_numpy(array.view(np.int16) if is_bfloat16 else array)
    return (tensor.view(torch.bfloat16) if is_bfloat16 else tensor).to(job.implementation.device)


def to_array(tensor: Tensor) -> Array:
    """The tensor's values as NumPy's, from any device."""
    tensor = tensor.cpu().contiguous()
    is_bfloat16 = tensor.dtype == torch.bfloat16
    array: Array = tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16")) if is_bfloat16 else tensor.numpy()
    return array


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
    if held_layout(job, spec) == "NHWC":
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


def prepared_images(job: Job, spec: Any, call: Callable[[], Tensor], note: str = "") -> Prepared:
    """A call that gives images, logical NCHW tensors."""

    def to_numpy(result: Tensor) -> Array:
        return to_array(result.permute(0, 2, 3, 1) if spec.layout == "NHWC" else result)

    return Prepared(call, to_numpy, layout=reported_layout(spec.layout, held_layout(job, spec)), note=note)
