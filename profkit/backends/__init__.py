"""Adapters, one file per framework, opened on first use; this list is their registry and their order."""

from __future__ import annotations

import importlib

from profkit.backends.adapter import Adapter

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


def load_adapter(name: str) -> Adapter:
    """The adapter in `profkit/backends/<name>.py`."""
    adapter: Adapter = importlib.import_module(f"profkit.backends.{name}").ADAPTER
    return adapter
