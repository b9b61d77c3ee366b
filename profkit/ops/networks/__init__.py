"""Networks by name: chains of operator specs that every backend builds with the same weights. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profkit.errors import UsageError, unknown
from profkit.ops.networks.cifar10 import Cifar10
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.lenet import LeNet
from profkit.ops.networks.mlp import Mlp
from profkit.ops.networks.network import Network
from profkit.ops.networks.solar import Solar
from profkit.ops.networks.training import Training

NETWORKS: dict[str, type[Network]] = {kind.name: kind for kind in (Cifar10, LeNet, Mlp, Solar)}

__all__ = [
    "NETWORKS",
    "Cifar10",
    "LeNet",
    "Layer",
    "Mlp",
    "Network",
    "Solar",
    "Training",
    "find_network",
    "network_from_dict",
]


def find_network(name: str) -> type[Network]:
    """The network of this name; an unknown one is an error that offers the nearest."""
    if name in NETWORKS:
        return NETWORKS[name]
    raise UsageError(unknown("network", name, NETWORKS))


def network_from_dict(data: Mapping[str, Any]) -> Network:
    """The network that `Network.to_dict` wrote; parameters that are missing take their defaults."""
    values = dict(data)
    return find_network(str(values.pop("network", None)))(**values)
