"""What foreign_networks.py runs in a separate environment: cases in, errors against float64 and recordings out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from profkit.capture.archive import save
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Training, network_from_dict
from tests.frameworks.networks.network_checks import Trial, built_here

RECORDED_STEPS = 2


def run_case(framework: str, case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Build one network, compare it, and record it where the case has a name."""
    begin = time.perf_counter()
    training = Training(**case["training"]) if case["training"] else None
    conditions = NetworkConditions(1, "graph", training is not None, training or Training())
    trial = built_here(load_builder(framework), network_from_dict(case["network"]), conditions)
    if training:
        error, tolerance = trial.training_error(training, case["steps"]), trial.tolerance(True, case["steps"])
    else:
        error, tolerance = trial.logits_error(), trial.tolerance()
    result = trial.built.to_numpy(trial.built.infer(trial.batch)) if not training else None
    if case["name"]:
        record(framework, trial, conditions, folder / case["name"])
    return {
        "error": error,
        "tolerance": tolerance,
        "largest": None if result is None else float(abs(result).max()),
        "notes": list(trial.built.notes),
        "seconds": time.perf_counter() - begin,
    }


def record(framework: str, trial: Trial, conditions: NetworkConditions, folder: Path) -> None:
    """Every pass of the source, each as a file named after it."""
    folder.mkdir()
    source, built = load_source(framework), trial.built
    run = built.train if conditions.is_training else built.infer
    for each in source.passes(conditions):
        watched = SourceSubject(trial.network, built, conditions, lambda: run(trial.batch))
        save(source.record(watched, each.name, RECORDED_STEPS), folder / each.name)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    found = [run_case(asked["framework"], case, Path(asked["folder"])) for case in asked["cases"]]
    print(json.dumps(found))
