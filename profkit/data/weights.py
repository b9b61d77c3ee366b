"""Weights of a network in a safetensors file: arrays by name in and out, checked against the network.

The library reads and writes the format; it is imported only here, in the parent.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from profkit.capture.checked_json import open_file
from profkit.errors import UnavailableError, UsageError, first_line
from profkit.ops.networks.network import Network
from profkit.ops.spec import Array

MOST_HEADER = 4 << 20
_LENGTH = struct.Struct("<Q")
_NETWORK, _PARAMETERS, _TRAINED = "network", "parameters", "trained"
"""Keys of the file's own description."""
_READ = ("F64", "F32", "F16")
_NAMED, _LONGEST = 4, 200


@dataclass(frozen=True)
class SavedWeights:
    """What a file has for a network: float32 arrays under the network's names."""

    arrays: Mapping[str, Array]
    description: str
    """The file and, as far as it says, how it came about: every output shows it."""


def check_weights_library() -> None:
    """UnavailableError with the line to type where the library is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise UnavailableError('weights are in safetensors files; type: pip install "profkit[data]"')


def write_weights(network: Network, arrays: Mapping[str, Array], trained: str, stream: BinaryIO) -> None:
    """All parameters and states, with the network's name and fields and how they came about."""
    parameters = ", ".join(f"{name} {word}" for name, word in network.words().items())
    about = {_NETWORK: network.name, _PARAMETERS: parameters, _TRAINED: trained}
    library: Any = importlib.import_module("safetensors.numpy")
    stream.write(library.save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about))


def read_weights(path: str | Path, network: Network) -> SavedWeights:
    """What `write_weights` wrote for this network, or another program under the same names.

    UsageError for another network's file: it says what is missing, too many, or of another shape.
    """
    check_weights_library()
    _check_header(path)
    library: Any = importlib.import_module("safetensors")
    try:
        with library.safe_open(os.fspath(path), framework="numpy") as file:
            about = {name: text[:_LONGEST] for name, text in (file.metadata() or {}).items()}
            _check_names(path, network, about, file.keys())
            arrays = {name: _array(path, file, name, shape) for name, shape in network.weight_shapes().items()}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except library.SafetensorError as error:
        raise UsageError(f"{path} is not a file of weights (safetensors), or is damaged: {first_line(error)}") from None
    trained = about.get(_TRAINED)
    return SavedWeights(arrays, f"{path} ({trained})" if trained else str(path))


def _check_header(path: str | Path) -> None:
    """The list of arrays is parsed as a whole: a file may say that it is long."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_LENGTH.size)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    if not 0 < length <= min(MOST_HEADER, size - _LENGTH.size):
        why = f"its header has {length:,} of {size:,} bytes"
        raise UsageError(f"{path} is not a file of weights (safetensors), or is damaged: {why}")


def _check_names(path: str | Path, network: Network, about: Mapping[str, str], names: Iterable[str]) -> None:
    given, expected = dict.fromkeys(names), network.weight_shapes()
    missing = [name for name in expected if name not in given]
    extra = [name for name in given if name not in expected]
    wrong = [f"lacks {_list(missing)}"] if missing else []
    wrong += [f"has {_list(extra)}, which {network.name} does not have"] if extra else []
    if not wrong:
        return
    saved = about.get(_NETWORK, network.name)
    whose = f"is of {saved}, and this is {network.name}: it " if saved != network.name else _fields(about)
    raise UsageError(f"{path} {whose}{' and '.join(wrong)}")


def _fields(about: Mapping[str, str]) -> str:
    return f"was saved with {about[_PARAMETERS]}: it " if about.get(_PARAMETERS) else ""


def _list(names: list[str]) -> str:
    shown = ", ".join(name[:_LONGEST] for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _array(path: str | Path, file: Any, name: str, shape: tuple[int, ...]) -> Array:
    """Checked before it is read."""
    view = file.get_slice(name)
    found, kind = tuple(view.get_shape()), view.get_dtype()
    if found != shape:
        raise UsageError(
            f"{path} {_fields(file.metadata() or {})}has {name} as {list(found)}, this network takes {list(shape)}"
        )
    if kind not in _READ:
        raise UsageError(f"{path} has {name} as {kind[:_LONGEST]}, expected {' or '.join(_READ)}")
    values: Array = file.get_tensor(name).astype(np.float32)
    if not np.isfinite(values).all():
        raise UsageError(f"{path} has numbers in {name} that are infinite or not a number")
    return values
