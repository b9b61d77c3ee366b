"""The networks that tests run in Theano, in three processes: compiling a graph's operators takes long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profkit.capture.schema import Capture
from profkit.ops.networks import Cifar10, Mlp
from tests.frameworks.networks.foreign_networks import Case, outcome
from tests.frameworks.networks.network_checks import NETWORKS, WITH_MOMENTUM

MLP_TRAINING = Case(Mlp(batch=5, hidden=2, neurons=16), WITH_MOMENTUM, 3, "mlp training")
CIFAR10_TRAINING = Case(Cifar10(batch=4, crop=24, filters=8), WITH_MOMENTUM, 3, "cifar10 training")
INFERENCE = (
    Case(Cifar10(batch=4, crop=24, filters=8), name="cifar10 inference"),
    *(Case(network) for network in NETWORKS[1:]),
)
PROCESSES = ((MLP_TRAINING,), INFERENCE, (CIFAR10_TRAINING,))
"""Of these only the first is in the quick tier."""


def cases_with(case: Case) -> tuple[Case, ...]:
    """Those of its process."""
    return next(cases for cases in PROCESSES if case in cases)


def found_of(case: Case) -> Mapping[str, Any]:
    """What came of it."""
    cases = cases_with(case)
    return outcome("theano", cases).found[cases.index(case)]


def theano_recording(case: Case, of_pass: str) -> Capture:
    """Of a case that has a name."""
    return outcome("theano", cases_with(case)).capture(case.name, of_pass)
