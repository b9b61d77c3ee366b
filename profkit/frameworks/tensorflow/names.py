"""What TensorFlow's names say: a node's path gives its layer and phase, a kernel's name the operator it implements."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, NamedTuple

from profkit.capture.schema import BACKWARD, COPY, EXACT, FORWARD, HOST, INFERRED, OPTIMISER
from profkit.frameworks.tensorflow.model import BACKWARD as TAPE
from profkit.frameworks.tensorflow.model import LOSS
from profkit.frameworks.tensorflow.model import OPTIMISER as UPDATES

GRADIENTS = (TAPE, "gradients")
"""Scopes of tf.GradientTape and of tf.gradients."""
_FEEDS = ("_arg_", "_retval_", "_send_", "_recv_")
_ENDS = ("_SOURCE", "_SINK")
_NUMBERED = re.compile(r"_\d+$")
_ONEDNN = re.compile(r"_Mkl(?:Native|Eager)?(\w+)$")
_KERNEL_EVENT = re.compile(r"([^:]+):([A-Za-z_]\w*)$")


class NetworkPlace(NamedTuple):
    layer: str | None
    phase: str
    quality: str = EXACT


class KernelType(NamedTuple):
    """An operator's type as the graph has it, and the kernel that does it where that has another name."""

    type: str
    implementation: str | None


Placer = Callable[[str], NetworkPlace]


def placer(layers: Collection[str]) -> Placer:
    """Places nodes by their paths: `conv1/Relu`, `gradient_tape/conv1/ReluGrad`, `optimiser/conv1/...`, `conv1.w`.

    TensorFlow's own graph optimiser puts further parts before or behind (`ConstantFolding/gradient_tape/conv1/...`),
    and numbers scopes that are opened twice (`conv1_1`).
    """

    def place(node: str) -> NetworkPlace:
        parts = node.split("/")
        layer = next((found for part in parts if (found := layer_of(part, layers))), None)
        if UPDATES in parts:
            return NetworkPlace(layer, OPTIMISER)
        if any(part in GRADIENTS for part in parts):
            return NetworkPlace(layer, BACKWARD)
        if layer is None and node.startswith(_FEEDS):
            return NetworkPlace(None, COPY)
        return NetworkPlace(layer, HOST if node in _ENDS else FORWARD)

    return place


def placer_in(graph: Any, layers: Collection[str]) -> Placer:
    """As `placer`, in a tf.Graph: what is summed of the gradients of several readers, or begins the gradient of a loop,
    has no layer in its name, and gets that of all operations that use it."""
    by_name = placer(layers)

    @cache
    def place(node: str) -> NetworkPlace:
        found = by_name(node)
        if found.layer is not None or found.phase != BACKWARD or LOSS in node.split("/"):
            return found
        try:
            outputs = graph.get_operation_by_name(node).outputs
        except (KeyError, ValueError):
            return found  # made by TensorFlow's optimiser
        users = {place(user.name).layer for output in outputs for user in output.consumers()}
        return NetworkPlace(users.pop(), BACKWARD, INFERRED) if len(users) == 1 and None not in users else found

    return place


def layer_of(part: str, layers: Collection[str]) -> str | None:
    """conv1_1 is conv1, unless there is such a layer: scopes opened twice are numbered; conv1.w is a variable of it."""
    for name in (part, _NUMBERED.sub("", part), part.partition(".")[0]):
        if name in layers:
            return name
    return None


def kernel_of(name: str) -> KernelType:
    """oneDNN's kernels are renamed by the runtime: `_MklNativeFusedConv2D` does the graph's `_FusedConv2D`."""
    found = _ONEDNN.match(name)
    if not found:
        return KernelType(name, None)
    plain = found.group(1)
    return KernelType(f"_{plain}" if plain.startswith("Fused") else plain, name)


def split_event(name: str) -> tuple[str, str] | None:
    """Node and kernel of an event `conv1/Relu:_FusedConv2D`; None for other events."""
    found = _KERNEL_EVENT.match(name)
    return (found.group(1), found.group(2)) if found else None
