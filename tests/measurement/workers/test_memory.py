"""The worker that runs a few steps for the search of the largest batch: its arrays take no memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from profkit.measurement.workers import memory
from profkit.ops.networks import NETWORKS, Cifar10
from tests.support.processes import answer_of


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_batch_has_the_shapes_of_the_network_and_takes_one_row(name: str) -> None:
    network = NETWORKS[name](batch=1000)

    images, labels = memory.batch_of(network)

    assert images.shape == network.input_shape() and images.strides[0] == 0
    assert images.dtype == (np.int64 if network.vocabulary else np.float32)
    assert len(labels) == 1000 and labels.strides[0] == 0


def test_weights_have_their_shapes_and_variances_are_positive() -> None:
    shapes = {**Cifar10().weight_shapes(), "norm.variance": (4,)}
    weights = memory.RowWeights(shapes)

    assert {name: array.shape for name, array in weights.items()} == shapes
    assert (weights["norm.variance"] == 1).all() and weights["conv1.w"].strides[0] == 0


def test_resident_memory_and_its_peak_are_read() -> None:
    assert 0 < memory.resident_bytes("VmRSS") <= memory.resident_bytes("VmHWM")
    assert memory.resident_bytes("VmNonsense") == 0


def test_the_kernel_refuses_data_beyond_the_limit() -> None:
    code = """
from profkit.measurement.workers.memory import limit_data
import json
limit_data(64 << 20)
held = bytearray(16 << 20)
try:
    bytearray(128 << 20)
    print(json.dumps("given"))
except MemoryError:
    print(json.dumps("refused"))
"""

    assert answer_of([sys.executable, "-c", code]) == "refused"
