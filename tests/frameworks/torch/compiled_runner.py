"""What test_events.py runs in a fresh interpreter: compiled networks, checked and recorded, into a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from profkit.capture.archive import save
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import LeNet, Mlp, Training
from tests.frameworks.networks.network_checks import built_here

STEPS = 2


def _run(folder: Path) -> dict[str, float]:
    """Error over tolerance, of inference with one network and of training with another: compiling takes long."""
    errors = {}
    for name, network in (("inference", LeNet(batch=2, convolutions=1, maps=1)), ("training", Mlp(4, 1, 16))):
        conditions = NetworkConditions(1, "compile", name == "training", Training())
        trial = built_here(load_builder("torch"), network, conditions)
        if conditions.is_training:
            errors[name] = trial.training_error(conditions.training, 1) / trial.tolerance(is_training=True)
        else:
            errors[name] = trial.logits_error() / trial.tolerance()
        run = trial.built.train if conditions.is_training else trial.built.infer
        watched = SourceSubject(network, trial.built, conditions, lambda run=run, batch=trial.batch: run(batch))  # type: ignore[misc]
        save(load_source("torch").record(watched, "operators", STEPS), folder / f"{name}.recording")
    return errors


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]))))
