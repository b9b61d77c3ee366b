"""Operators: every spec by its name, read back from JSON, its named presets and its odd shapes. NumPy only."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from profkit.errors import SpecError
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.odd_shapes import odd_specs
from profkit.ops.pool2d import Pool2d
from profkit.ops.presets import default_preset, find_preset, presets_for
from profkit.ops.softmax import Softmax
from profkit.ops.spec import Spec

SPECS: dict[str, type[Spec]] = {
    kind.op: kind for kind in (Conv2d, MatMul, Pool2d, LocalResponseNorm, BiasRelu, Softmax)
}

__all__ = [
    "SPECS",
    "BiasRelu",
    "Conv2d",
    "LocalResponseNorm",
    "MatMul",
    "Pool2d",
    "Softmax",
    "Spec",
    "default_preset",
    "find_preset",
    "odd_specs",
    "presets_for",
    "spec_from_dict",
]


def spec_from_dict(data: Mapping[str, Any]) -> Spec:
    """The spec that `Spec.to_dict` wrote; fields that are missing take their defaults."""
    values = dict(data)
    op = values.pop("op", None)
    if op not in SPECS:
        raise SpecError(f"unknown operator {op!r}: {_nearest(str(op), SPECS)}")
    names = [item.name for item in dataclasses.fields(SPECS[op])]
    for name in values:
        if name not in names:
            raise SpecError(f"{op} has no field {name!r}: {_nearest(name, names)}")
    return SPECS[op](**values)


def _nearest(word: str, names: Iterable[str]) -> str:
    known = list(names)
    close = difflib.get_close_matches(word, known)
    return f"did you mean {' or '.join(close)}?" if close else f"expected one of {', '.join(known)}"
