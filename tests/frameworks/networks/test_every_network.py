"""A small variant of every network infers and trains as float64 says; other frameworks than these are in full."""

from __future__ import annotations

import pytest

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions, reason_against
from tests.frameworks.networks.network_checks import step_problems
from tests.ops.networks.small import small_networks


@pytest.mark.parametrize("framework", ["torch", "native"])
def test_every_network_infers_and_trains_as_float64_says(framework: str) -> None:
    """With the optimiser of its study; the first step's gradients and weights too."""
    builder = load_builder(framework)
    if not builder.is_available().available:
        pytest.skip(f"{framework} is not installed")
    mode = builder.modes[0]
    builder.start(NetworkConditions(1, mode))
    problems = {}
    for network in small_networks():
        conditions = NetworkConditions(1, mode, True, network.training)
        assert not reason_against(builder, network, conditions)
        problems[network.name] = step_problems(builder, network, conditions)

    assert {name: found for name, found in problems.items() if found} == {}
