"""A framework in a separate process: small networks against float64, and recordings of one of them.

What one process found is kept for all tests of the run, whichever file asks.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.archive import load
from profkit.capture.schema import Capture
from profkit.frameworks.events import load_source
from profkit.frameworks.keras.networks import backend_of
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from tests.frameworks.networks.network_process_runner import QUICK, file_name
from tests.support.processes import COMPILING_FAST, answer_of, with_tests
from tests.support.shared_work import made_once

RUNNER = "tests.frameworks.networks.network_process_runner"
THREADS = 2


@dataclass(frozen=True)
class Outcome:
    """What a process found."""

    facts: dict[str, Any]
    """Versions, notes, errors by network, losses with dropout."""
    folder: Path

    def capture(self, name: str, is_training: bool) -> Capture:
        """Of the CIFAR-10 network under a pass."""
        return load(self.folder / file_name(name, is_training))


@cache
def outcome(framework: str, mode: str, part: str = QUICK) -> Outcome:
    """Run a part; skips the test where the framework is missing."""
    builder = load_builder(framework)
    for each in (builder, load_builder(backend_of(mode)) if framework == "keras" else builder):
        availability = each.is_available()
        if not availability.available:
            pytest.skip(availability.reason)
    conditions = NetworkConditions(THREADS, mode)
    environment = {**os.environ, **COMPILING_FAST, **builder.environment(conditions)}
    for one in load_source(framework).passes(conditions):
        environment.update(one.environment)

    def run(folder: Path) -> Any:
        return answer_of([sys.executable, "-m", RUNNER, framework, mode, str(folder), part], with_tests(environment))

    folder, facts = made_once(f"network-{framework}-{mode}-{part}", run)
    return Outcome(facts, folder)
