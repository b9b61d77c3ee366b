"""Operators: every spec by its name, read back from JSON, its named presets and its odd shapes. NumPy only."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from profkit.errors import SpecError, UsageError, unknown
from profkit.ops.activation import Activation as Activation
from profkit.ops.add import Add as Add
from profkit.ops.attention import Attention as Attention
from profkit.ops.batch_norm import BatchNorm as BatchNorm
from profkit.ops.bias_relu import BiasRelu as BiasRelu
from profkit.ops.conv2d import Conv2d as Conv2d
from profkit.ops.dropout import Dropout as Dropout
from profkit.ops.embedding import Embedding as Embedding
from profkit.ops.layer_norm import LayerNorm as LayerNorm
from profkit.ops.lrn import LocalResponseNorm as LocalResponseNorm
from profkit.ops.lstm import Lstm as Lstm
from profkit.ops.matmul import MatMul as MatMul
from profkit.ops.optimiser_step import OptimiserStep as OptimiserStep
from profkit.ops.pool2d import Pool2d as Pool2d
from profkit.ops.softmax import Softmax as Softmax
from profkit.ops.spec import Spec as Spec

for _module in pkgutil.iter_modules(__path__):
    if not _module.ispkg:
        importlib.import_module(f"{__name__}.{_module.name}")
SPECS: dict[str, type[Spec]] = {kind.op: kind for kind in sorted(Spec.__subclasses__(), key=lambda kind: kind.op)}
"""Whatever a file of this folder defines, by name."""


def presets_for(op: str) -> Mapping[str, Spec]:
    """All presets of an operator by name; the first is the default."""
    return _kind(op).presets()


def default_preset(op: str) -> str:
    """Name of the preset that equals the spec without arguments."""
    return next(iter(presets_for(op)))


def find_preset(op: str, name: str) -> Spec:
    """The preset of that name; an unknown one is an error that offers the nearest names."""
    presets = presets_for(op)
    if name in presets:
        return presets[name]
    raise UsageError(unknown(f"{op} preset", name, presets))


def odd_specs(op: str) -> list[Spec]:
    """The operator's odd shapes, always the same list in the same order."""
    return _kind(op).odd_shapes()


def _kind(op: str) -> type[Spec]:
    if op not in SPECS:
        raise UsageError(unknown("operator", op, SPECS))
    return SPECS[op]


def spec_from_dict(data: Mapping[str, Any]) -> Spec:
    """The spec that `Spec.to_dict` wrote; fields that are missing take their defaults."""
    values = dict(data)
    op = values.pop("op", None)
    if op not in SPECS:
        raise SpecError(unknown("operator", str(op), SPECS))
    return SPECS[op](**values)
