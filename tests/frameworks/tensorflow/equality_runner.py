"""Run by test_networks.py in a fresh interpreter: every network in TensorFlow against float64, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Network, Solar, Training
from tests.frameworks.networks.network_checks import NETWORKS, WITH_MOMENTUM, Trial, built_here, name_of

STEPS = 3


def trial_of(network: Network, mode: str, training: Training) -> Trial:
    return built_here(load_builder("tensorflow"), network, NetworkConditions(2, mode, True, training))


def errors_of(network: Network, mode: str) -> dict[str, Any]:
    """Inference, several steps with momentum, and inference again with what was learned."""
    trial = trial_of(network, mode, WITH_MOMENTUM)
    logits_error = trial.logits_error()
    training_error = trial.training_error(WITH_MOMENTUM, STEPS)
    return {
        "case": f"{mode} {name_of(network)}",
        "logits": [logits_error, trial.tolerance()],
        "training": [training_error, trial.tolerance(is_training=True, steps=STEPS)],
        "learned": trial.logits_error() > logits_error,
    }


def plain_errors(network: Network, mode: str) -> list[float]:
    trial = trial_of(network, mode, Training())
    return [trial.training_error(Training(), 1), trial.tolerance(is_training=True)]


def results() -> Iterator[tuple[str, Any]]:
    cases = [(network, "graph") for network in NETWORKS] + [(NETWORKS[1], "eager"), (NETWORKS[1], "session")]
    yield "cases", [errors_of(*case) for case in cases]
    yield "plain", {mode: plain_errors(NETWORKS[0], mode) for mode in ("graph", "eager", "session")}
    # Dropout is random: it can only be run.
    dropout = trial_of(Solar(batch=2), "graph", Training(learning_rate=0.0, weight_decay=False))
    losses = [float(dropout.built.to_numpy(dropout.built.train(dropout.batch))) for _ in range(6)]
    yield (
        "dropout",
        {
            "logits": [dropout.logits_error(), dropout.tolerance()],
            "losses": losses,
            "is_finite": all(map(math.isfinite, losses)),
        },
    )


print(json.dumps(dict(results())))
