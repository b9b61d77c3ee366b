"""Networks on profkit's Numba kernels, layer by layer; gradients that they lack are NumPy's, and are named so."""

from __future__ import annotations

from profkit.frameworks.networks.kernels import FillingKernels
from profkit.frameworks.networks.plain_layers import LayerBuilder
from profkit.frameworks.numba.operators import ADAPTER
from profkit.ops.networks.layer import ATTENTION, BATCH_NORM, CONCAT, LSTM, MEAN

BUILDER = LayerBuilder(
    "numba",
    ADAPTER,
    lambda conditions: FillingKernels(ADAPTER, conditions.threads, ADAPTER.prepares),
    composed=(BATCH_NORM, LSTM, ATTENTION),
    by_numpy=(CONCAT, MEAN),
    notes=(
        "every operator allocates its result and its buffers",
        "kernels are compiled by their first call: the first step contains that",
    ),
    training_note="what has no Numba kernel NumPy does (implementation numpy): optimisers and others",
)
