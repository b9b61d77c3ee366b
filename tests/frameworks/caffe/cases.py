"""The networks that tests run as Caffe models, all in one process."""

from __future__ import annotations

from profkit.ops.networks import Cifar10, Solar
from tests.frameworks.networks.foreign_networks import Case, Outcome, outcome
from tests.frameworks.networks.network_checks import NETWORKS

POOLINGS = ((5, 2), (4, 4), (2, 1), (1, 3))
CASES = (
    Case(Cifar10(batch=4, crop=24, filters=8), name="cifar10"),
    Case(Cifar10(batch=2, filters=8, stride=2), name="cifar10 stride2"),
    *(Case(Cifar10(batch=2, filters=8, stride=stride)) for stride in (1, 3, 5)),
    *(Case(Cifar10(batch=2, filters=8, pool=pool, pool_stride=stride)) for pool, stride in POOLINGS),
    *(Case(network) for network in NETWORKS[1:]),
    Case(Solar(batch=2)),
)


def caffe_outcome() -> Outcome:
    """What they gave."""
    return outcome("caffe", CASES)
