"""The networks that tests run in Theano, all in one process: compiling a graph's operators takes half a minute."""

from __future__ import annotations

import os

import pytest
from foreign_networks import Case, Outcome, outcome
from network_checks import NETWORKS, WITH_MOMENTUM

from profkit.ops.networks import Cifar10, Mlp

ALL_VARIABLE = "PROFKIT_TEST_ALL"
"""Set to 1 to run every network, the training of CIFAR-10 too; compiling that takes as long as all the others."""
MLP_TRAINING = Case(Mlp(batch=5, hidden=2, neurons=16), WITH_MOMENTUM, 3, "mlp training")
CIFAR10_TRAINING = Case(Cifar10(batch=4, crop=24, filters=8), WITH_MOMENTUM, 3, "cifar10 training")
INFERENCE = (
    Case(Cifar10(batch=4, crop=24, filters=8), name="cifar10 inference"),
    *(Case(network) for network in NETWORKS[1:]),
)


def is_everything_wanted() -> bool:
    """Whether the slow case is run."""
    return os.environ.get(ALL_VARIABLE) == "1"


def cases() -> tuple[Case, ...]:
    """Those of this session."""
    usual = (MLP_TRAINING, *INFERENCE[:2])
    return (*usual, *INFERENCE[2:], CIFAR10_TRAINING) if is_everything_wanted() else usual


def index_of(case: Case) -> int:
    """Its place among those of this session; skips the test where it is none of them."""
    if case not in cases():
        pytest.skip(f"compiling it takes long: {ALL_VARIABLE}=1 runs it")
    return cases().index(case)


def theano_outcome() -> Outcome:
    """What they gave."""
    return outcome("theano", cases())
