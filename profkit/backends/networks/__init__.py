"""Frameworks that run whole networks, one file each, opened on first use; this list is their registry and order."""

from __future__ import annotations

import importlib

from profkit.backends.networks.contract import NetworkBuilder
from profkit.errors import check_names

BUILDERS = (
    "native",
    "numpy",
    "numba",
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "onnxruntime",
    "theano",
    "caffe",
    "cupy",
)


def load_builder(name: str) -> NetworkBuilder:
    """The builder in `profkit/backends/networks/<name>.py`."""
    check_names("profkit", [name], BUILDERS, "network framework")
    builder: NetworkBuilder = importlib.import_module(f"profkit.backends.networks.{name}").BUILDER
    return builder
