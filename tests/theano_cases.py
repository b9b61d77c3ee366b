"""The networks that tests run in Theano, all in one process: compiling a graph's operators takes half a minute."""

from __future__ import annotations

import os

from foreign_networks import Case, Outcome, outcome
from network_checks import NETWORKS, WITH_MOMENTUM

from profkit.ops.networks import Cifar10, Mlp

ALL_VARIABLE = "PROFKIT_TEST_ALL"
"""Set to 1 to compile the CIFAR-10 network's training, too, which takes as long as all the others together."""
MLP_TRAINING = Case(Mlp(batch=5, hidden=2, neurons=16), WITH_MOMENTUM, 3, "mlp training")
INFERENCE = (
    Case(Cifar10(batch=4, crop=24, filters=8), name="cifar10 inference"),
    *(Case(network) for network in NETWORKS[1:]),
)
CIFAR10_TRAINING = Case(Cifar10(batch=4, crop=24, filters=8), WITH_MOMENTUM, 3, "cifar10 training")


def is_everything_wanted() -> bool:
    """Whether the slow case is run."""
    return os.environ.get(ALL_VARIABLE) == "1"


def cases() -> tuple[Case, ...]:
    """Those of this session."""
    return (MLP_TRAINING, *INFERENCE, *((CIFAR10_TRAINING,) if is_everything_wanted() else ()))


def theano_outcome() -> Outcome:
    """What they gave."""
    return outcome("theano", cases())
