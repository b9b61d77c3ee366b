"""PyTorch on one CUDA device: the builders of the CPU rows, on the device's current stream.

Not run on a GPU: the machines that this was written on have none. What is tested is the same code on the CPU, and the
failure to find a device. float32 rows multiply in full float32; `tf32` allows tensor cores to round the operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Conditions, DeviceCall, Implementation, Prepared, waiting
from profkit.frameworks.framework import ALL_DTYPES, Framework, FrameworkOperator, Job, no_cuda_driver, package_text
from profkit.frameworks.lazy import torch
from profkit.frameworks.torch import operators as cpu_adapter
from profkit.frameworks.torch.tensors import CHANNELS_LAST
from profkit.ops.dtypes import TF32

DEVICE = "cuda"


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    facts = cpu_adapter.ADAPTER.begin(implementation, conditions)
    reason = why_no_device(torch)
    if reason:
        raise UnavailableError(f"torch: {reason}")
    # cuDNN may round to TF32 by default: float32 must mean the same in every row.
    allowed = implementation.rounding == TF32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
    # One choice of algorithm per shape, made in the first call, which is never timed.
    torch.backends.cudnn.benchmark = True
    return {
        **facts,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "device": str(torch.cuda.get_device_name(0)),
        "tf32": "allowed" if allowed else "off",
    }


def cuda_of_build() -> str | None:
    """The CUDA version that the installed torch was built for, 13.0; empty for the CPU; None when it does not say."""
    text = package_text("torch", "version.py")
    found = re.search(r"^cuda\b[^=]*=\s*(?:None|'([\d.]+)')", text, re.MULTILINE)
    return found and (found[1] or "")


def _unavailable_reason() -> str:
    return no_cuda_driver() or (
        "this build is without CUDA: pytorch.org has those with" if cuda_of_build() == "" else ""
    )


def why_no_device(torch: Any) -> str:
    """Why this torch has no CUDA device, in its own words; empty when it has one."""
    if torch.version.cuda is None:
        return f"this build ({torch.__version__}) is without CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return " ".join(str(error).split())
    return "" if torch.cuda.device_count() else "the driver reports no CUDA device"


def on_device(build: Callable[[Job, Any], Prepared]) -> Callable[[Job, Any], Prepared]:
    """The CPU builder's call as work on the current stream, and the same with waiting."""

    def build_on_device(job: Job, spec: Any) -> Prepared:
        prepared = build(job, spec)
        enqueue, stream = prepared.call, torch.cuda.current_stream()

        def peak_bytes(run: Callable[[], Any]) -> int:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            run()
            torch.cuda.synchronize()
            return int(torch.cuda.max_memory_allocated() - before)

        prepared.call = waiting(enqueue, stream.synchronize)
        prepared.device = DeviceCall(enqueue, int(stream.cuda_stream), torch.cuda.current_device(), peak_bytes)
        return prepared

    return build_on_device


def _refuse(refuse: Callable[[Implementation, Any], str]) -> Callable[[Implementation, Any], str]:
    def refuse_on_device(implementation: Implementation, spec: Any) -> str:
        if implementation.rounding == TF32 and spec.dtype != "float32":
            return f"TF32 is a rounding of float32 operands, not of {spec.dtype}"
        return refuse(implementation, spec)

    return refuse_on_device


def _operators() -> dict[str, FrameworkOperator]:
    """Those of the CPU; products and convolutions have a row that may round to TF32 as well."""
    variants = {"conv2d": ("", CHANNELS_LAST, TF32), "matmul": ("", TF32)}
    return {
        op: FrameworkOperator(on_device(operator.build), _refuse(operator.refuse), variants.get(op, operator.variants))
        for op, operator in cpu_adapter.ADAPTER.operators.items()
    }


ADAPTER = Framework(
    "torch",
    _begin,
    operators=_operators(),
    device=DEVICE,
    module="torch_cuda",
    variant_options={TF32: {"rounding": TF32}},
    dtypes=ALL_DTYPES,
    unavailable_reason=_unavailable_reason,
)
