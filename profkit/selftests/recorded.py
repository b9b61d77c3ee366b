"""Running a program of the selftest under the tracer, and comparing counts: what it did against what was recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.reading import read
from profkit.capture.schema import Capture
from profkit.errors import ProfkitError
from profkit.selftests.findings import PROVEN, WRONG, Finding

SIDES = ("made", "recorded")


def record_program(module: str, folder: str, limit_s: float) -> tuple[Capture, dict[str, Any]]:
    """Its capture and what it printed; ProfkitError with its last words when it does not end well."""
    path = os.path.join(folder, f"{module.rpartition('.')[2]}.profkit")
    environment = traced_environment(os.environ, path, RecordingOptions(), torch="off")
    # Not the folder of whoever called: a file there may have the name of a module.
    command = [sys.executable, "-m", module]
    try:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProfkitError(f"the recorded program {module} did not end within {limit_s:g} s") from None
    if done.returncode:
        words = " | ".join(line.strip() for line in done.stderr.strip().splitlines()[-3:])
        raise ProfkitError(f"the recorded program {module} ended with {done.returncode}: {words}")
    return read(path), json.loads(done.stdout.splitlines()[-1])


def compared(name: str, counts: Mapping[str, tuple[int, int]]) -> Finding:
    """What was made and what was recorded, by name: each count must be the same on both sides."""
    numbers = {side: {what: pair[place] for what, pair in counts.items()} for place, side in enumerate(SIDES)}
    differences = [
        f"{what}: {made:,} made, {recorded:,} recorded" for what, (made, recorded) in counts.items() if made != recorded
    ]
    if differences:
        return Finding(name, WRONG, "; ".join(differences), numbers)
    text = ", ".join(f"{made:,} {what}" for what, (made, _) in counts.items())
    return Finding(name, PROVEN, f"made and recorded: {text}", numbers)


def rows_named(capture: Capture, name: str) -> Any:
    """Rows of the ranges of this name."""
    numbers = [number for number, text in enumerate(capture.strings) if text == name]
    return np.flatnonzero(np.isin(capture.ranges.name, numbers))


def count(values: Any) -> int:
    """How many are not zero."""
    return int(np.count_nonzero(values))
