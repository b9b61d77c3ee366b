"""Frameworks, one folder each, opened on first use: operators (and their CUDA rows), whole networks, events of a run.

This list is the registry of the adapters of operators, and their order.
"""

from __future__ import annotations

import importlib

from profkit.frameworks.adapter import Adapter
from profkit.ops.keys import parts_of

BACKENDS = (
    "native",
    "numpy",
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "numba",
    "onnxruntime",
    "native_cuda",
    "torch_cuda",
    "tensorflow_cuda",
    "jax_cuda",
    "cupy",
    "numba_cuda",
)
CANDIDATE = "candidate"


def is_candidate(key: str) -> bool:
    """Whether it names a user's own kernel."""
    return parts_of(key).framework == CANDIDATE


def load_adapter(name: str) -> Adapter:
    """The adapter of `torch` is in `profkit/frameworks/torch/operators.py`, that of `torch_cuda` in `torch/cuda.py`."""
    framework, _, device = name.partition("_")
    adapter: Adapter = importlib.import_module(f"profkit.frameworks.{framework}.{device or 'operators'}").ADAPTER
    return adapter
