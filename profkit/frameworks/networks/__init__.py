"""Frameworks that run whole networks, one folder each, opened on first use; this list is their registry and order."""

from __future__ import annotations

import importlib

from profkit.errors import check_names
from profkit.frameworks.networks.contract import NetworkBuilder

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
    """The builder in `profkit/frameworks/<name>/networks.py`."""
    check_names("profkit", [name], BUILDERS, "network framework")
    builder: NetworkBuilder = importlib.import_module(f"profkit.frameworks.{name}.networks").BUILDER
    return builder
