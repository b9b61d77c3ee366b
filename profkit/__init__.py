"""profkit: where the time and the memory of a neural-network operator go, and how far it is from the best.

Importing this package imports neither a framework nor NumPy; names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from profkit._core import mark as mark
    from profkit._core import scope as scope
    from profkit.api import CaptureProfile as CaptureProfile
    from profkit.api import LargestBatch as LargestBatch
    from profkit.api import NetworkProfile as NetworkProfile
    from profkit.api import PrintableResult as PrintableResult
    from profkit.api import max_batch as max_batch
    from profkit.api import measure as measure
    from profkit.api import open as open
    from profkit.api import profile_network as profile_network
    from profkit.capture.session import record as record
    from profkit.frameworks.cupy.kernels import cupy_module as cupy_module
    from profkit.frameworks.cupy.kernels import kernel_struct as kernel_struct
    from profkit.frameworks.headers import include_path as include_path
    from profkit.ops import Activation as Activation
    from profkit.ops import Add as Add
    from profkit.ops import Attention as Attention
    from profkit.ops import BatchNorm as BatchNorm
    from profkit.ops import BiasRelu as BiasRelu
    from profkit.ops import Conv2d as Conv2d
    from profkit.ops import Dropout as Dropout
    from profkit.ops import Embedding as Embedding
    from profkit.ops import LayerNorm as LayerNorm
    from profkit.ops import LocalResponseNorm as LocalResponseNorm
    from profkit.ops import Lstm as Lstm
    from profkit.ops import MatMul as MatMul
    from profkit.ops import OptimiserStep as OptimiserStep
    from profkit.ops import Pool2d as Pool2d
    from profkit.ops import Softmax as Softmax
    from profkit.ops.networks import Cifar10 as Cifar10
    from profkit.ops.networks import LeNet as LeNet
    from profkit.ops.networks import Mlp as Mlp
    from profkit.ops.networks import Solar as Solar
    from profkit.ops.networks import fold_batch_norm as fold_batch_norm

_NAMES = {
    "profkit._core": ("mark", "scope"),
    "profkit.api": (
        "CaptureProfile",
        "LargestBatch",
        "NetworkProfile",
        "PrintableResult",
        "max_batch",
        "measure",
        "open",
        "profile_network",
    ),
    "profkit.capture.session": ("record",),
    "profkit.frameworks.cupy.kernels": ("cupy_module", "kernel_struct"),
    "profkit.frameworks.headers": ("include_path",),
    "profkit.ops": (
        "Activation",
        "Add",
        "Attention",
        "BatchNorm",
        "BiasRelu",
        "Conv2d",
        "Dropout",
        "Embedding",
        "LayerNorm",
        "LocalResponseNorm",
        "Lstm",
        "MatMul",
        "OptimiserStep",
        "Pool2d",
        "Softmax",
    ),
    "profkit.ops.networks": ("Cifar10", "LeNet", "Mlp", "Solar", "fold_batch_norm"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'profkit' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    # From now on a plain attribute: a range must not pay for a search.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
