"""What network_process.py runs in a fresh interpreter: a framework, a mode and a part in, JSON and recordings out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from profkit.capture.archive import save
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkBuilder, NetworkConditions, reason_against
from profkit.ops.networks import Cifar10, LeNet, Mlp, Network, Training
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.network import SQUARED_ERROR
from tests.frameworks.networks.graphs import GRAPHS, MORE_GRAPHS, graph_problems
from tests.frameworks.networks.network_checks import WITH_MOMENTUM, Trial, built_here, step_problems
from tests.ops.networks.small import small_networks

STEPS = 2
CIFAR10 = Cifar10(batch=4, crop=24, filters=8)


class Regression(Mlp, name="regression"):
    """Squared error."""

    loss: ClassVar[str] = SQUARED_ERROR


class Normed(Cifar10, name="normed"):
    """A normalisation that cannot be overlooked, over more channels before than after."""

    def describe(self, graph: Graph) -> None:
        graph.conv("conv1", 6, 3, 2).norm("norm1", size=4, alpha=2.0).flatten().dense("output", 10, "none")


class WithDropout(Mlp, name="with_dropout"):
    """Dropout between dense layers."""

    def describe(self, graph: Graph) -> None:
        graph.dense("hidden", 16).dropout("dropout", 0.5).dense("output", 7, "none")


QUICK, REST, PUBLISHED = "quick", "rest", "published"
NETWORKS: dict[str, tuple[Network, ...]] = {
    QUICK: (CIFAR10, Regression(batch=5, hidden=1, neurons=16)),
    REST: (
        Cifar10(batch=3, crop=24, filters=4, stride=2, pool=5),
        LeNet(batch=3, convolutions=1, maps=2),
        Normed(batch=2, crop=24),
    ),
}
"""By part: recordings and the rest of what is asked are of the first network of the first part."""


def file_name(name: str, is_training: bool) -> str:
    """Of the recording of a pass."""
    return f"{name}-{'training' if is_training else 'inference'}.recording"


def _run(framework: str, mode: str, folder: Path, part: str) -> dict[str, Any]:
    conditions = NetworkConditions(2, mode, True, WITH_MOMENTUM)
    builder = load_builder(framework)
    if part == PUBLISHED:
        builder.start(conditions)
        return _published(builder, mode)
    networks = [network for network in NETWORKS[part] if not builder.supports(network, conditions)]
    trials = [built_here(builder, network, conditions) for network in networks]
    errors = {trial.network.name: _errors(trial) for trial in trials}
    declared = GRAPHS if part == QUICK else MORE_GRAPHS
    graphs = [graph_problems(builder, network, training, mode) for network, training in declared]
    if part != QUICK:
        return {"errors": errors, "graphs": graphs}
    plain = built_here(builder, Mlp(batch=5, hidden=1, neurons=16), NetworkConditions(2, mode, True, Training()))
    return {
        "start": builder.start(conditions),
        "notes": list(trials[0].built.notes),
        "errors": errors,
        "graphs": graphs,
        "plain_error": plain.training_error(Training(), 1),
        "plain_tolerance": plain.tolerance(is_training=True),
        "dropout": _dropout(framework, mode),
        "passes": _record(framework, trials[0], conditions, folder),
    }


def _published(builder: NetworkBuilder, mode: str) -> dict[str, Any]:
    """By network, as its authors trained it."""
    problems = {}
    for network in small_networks():
        conditions = NetworkConditions(2, mode, True, network.training)
        refused = reason_against(builder, network, conditions)
        problems[network.name] = [refused] if refused else step_problems(builder, network, conditions)
    return problems


def _errors(trial: Trial) -> dict[str, Any]:
    """Of inference, of steps with momentum, and whether inference then uses what was learned."""
    before = trial.logits_error()
    return {
        "inference": before,
        "inference_tolerance": trial.tolerance(),
        "training": trial.training_error(WITH_MOMENTUM, 3),
        "training_tolerance": trial.tolerance(is_training=True, steps=3),
        "output": float(np.abs(trial.built.to_numpy(trial.built.infer(trial.batch))).max()),
        "learned": trial.logits_error() > before,
    }


def _dropout(framework: str, mode: str) -> dict[str, Any]:
    """Losses of three steps that change no weight, and what is then inferred."""
    conditions = NetworkConditions(2, mode, True, Training(learning_rate=0.0))
    trial = built_here(load_builder(framework), WithDropout(batch=8), conditions)
    losses = [float(trial.built.to_numpy(trial.built.train(trial.batch))) for _ in range(3)]
    return {"losses": losses, "error": trial.logits_error(), "tolerance": trial.tolerance()}


def _record(framework: str, trial: Trial, conditions: NetworkConditions, folder: Path) -> list[str]:
    source, built = load_source(framework), trial.built
    passes = [each.name for each in source.passes(conditions)]
    for is_training, run in ((False, built.infer), (True, built.train)):
        now = NetworkConditions(conditions.threads, conditions.mode, is_training, conditions.training)
        watched = SourceSubject(trial.network, built, now, lambda run=run: run(trial.batch))  # type: ignore[misc]
        watched.step()
        for name in passes:
            save(source.record(watched, name, STEPS), folder / file_name(name, is_training))
    return passes


if __name__ == "__main__":
    print(json.dumps(_run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])))
