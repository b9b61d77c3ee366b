"""How wrong a network is on data: what it gives and the labels in, one number out."""

from __future__ import annotations

import numpy as np

from profkit.ops.networks.network import CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.spec import Array


def network_error(network: Network, output: Array, labels: Array) -> float:
    """The share of wrong classes (the largest logit; of one logit its sign), or the mean squared error."""
    if network.loss == SQUARED_ERROR:
        return float(np.mean((output - labels) ** 2, dtype=np.float64))
    if network.loss == CROSS_ENTROPY:
        return float(np.mean(output.argmax(axis=1) != labels))
    return float(np.mean((output > 0) != (labels > 0.5)))
