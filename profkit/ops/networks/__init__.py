"""Networks by name: graphs of operator specs that every framework builds with the same weights. NumPy only."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from profkit.errors import UsageError, unknown
from profkit.ops.networks import published
from profkit.ops.networks.folding import FOLDS
from profkit.ops.networks.folding import FoldedNetwork as FoldedNetwork
from profkit.ops.networks.folding import fold_batch_norm as fold_batch_norm
from profkit.ops.networks.layer import Layer as Layer
from profkit.ops.networks.network import Network as Network
from profkit.ops.networks.published.cifar10 import Cifar10 as Cifar10
from profkit.ops.networks.published.lenet import LeNet as LeNet
from profkit.ops.networks.published.mlp import Mlp as Mlp
from profkit.ops.networks.published.solar import Solar as Solar
from profkit.ops.networks.training import Training as Training


def _declared() -> Iterator[type[Network]]:
    """Whatever a module of the folder `published` defines."""
    for module in pkgutil.iter_modules(published.__path__, f"{published.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Network) and value.__module__ == module.name:
                yield value


NETWORKS: dict[str, type[Network]] = {kind.name: kind for kind in sorted(_declared(), key=lambda kind: kind.name)}


def find_network(name: str) -> type[Network]:
    """The network of this name; an unknown one is an error that offers the nearest."""
    if name in NETWORKS:
        return NETWORKS[name]
    raise UsageError(unknown("network", name, NETWORKS))


def network_from_dict(data: Mapping[str, Any]) -> Network:
    """The network that `Network.to_dict` wrote; parameters that are missing take their defaults."""
    values = dict(data)
    is_folded = values.pop(FOLDS, False)
    network = find_network(str(values.pop("network", None)))(**values)
    return fold_batch_norm(network) if is_folded else network
