"""Networks in a separate environment, in one process per framework: cases in, errors and recordings out.

The environment that is there is used; where there is none, one is made for the run, which takes some ten seconds
and a package index.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from profkit.capture.archive import load
from profkit.capture.schema import Capture
from profkit.errors import ProfkitError
from profkit.frameworks.environment_maker import create
from profkit.frameworks.environments import FOREIGN, READY, Environment, look
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Network, Training
from tests.support.places import ROOT
from tests.support.processes import answer_of
from tests.support.shared_work import locked, made_once, shared_folder

RUNNER = "tests.frameworks.networks.foreign_networks_runner"


@dataclass(frozen=True)
class Case:
    """A network to be compared with float64; recorded, too, where it has a name."""

    network: Network
    training: Training | None = None
    steps: int = 1
    name: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For the runner."""
        training = self.training.field_values() if self.training else None
        return {"network": self.network.to_dict(), "training": training, "steps": self.steps, "name": self.name}


@dataclass(frozen=True)
class Outcome:
    """What the process found, case by case."""

    found: Sequence[Mapping[str, Any]]
    folder: Path

    def capture(self, name: str, of_pass: str) -> Capture:
        """Of the case of this name."""
        return load(self.folder / name / of_pass)


@cache
def environment_of(framework: str) -> Environment:
    """Ready; skips the test where none can be made."""
    foreign = FOREIGN[framework]
    present = look(foreign)
    if present.state == READY:
        return present
    ours = {"PROFKIT_ENVIRONMENTS": str(shared_folder() / "environments")}
    with locked(f"environment-{framework}"), mock.patch.dict(os.environ, ours):
        present = look(foreign)
        if present.state == READY:
            return present
        try:
            return create(foreign, sys.executable, lambda _: None)
        except ProfkitError as error:
            pytest.skip(f"there is no environment of {framework}: {error}")


@cache
def outcome(framework: str, cases: tuple[Case, ...]) -> Outcome:
    """Run all cases in one process."""
    environment = environment_of(framework)
    variables = {**os.environ, **load_builder(framework).environment(NetworkConditions())}
    variables["PYTHONPATH"] = str(ROOT)

    def run(folder: Path) -> Any:
        asked = {"framework": framework, "folder": str(folder), "cases": [case.to_dict() for case in cases]}
        return answer_of([environment.python, "-m", RUNNER, json.dumps(asked)], variables)

    key = hashlib.sha256(repr(cases).encode()).hexdigest()[:16]
    folder, found = made_once(f"networks-{framework}-{key}", run)
    return Outcome(found, folder)
