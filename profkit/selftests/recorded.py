"""Running a program of the selftest under the tracer, and comparing counts: what it did against what was recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.reading import read
from profkit.capture.schema import Capture
from profkit.errors import ProfkitError
from profkit.selftests.findings import PROVEN, WRONG, Finding


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


def compared(part: str, name: str, made: dict[str, int], recorded: dict[str, int]) -> Finding:
    """Each count must be the same on both sides."""
    numbers = {"made": made, "recorded": recorded}
    differences = [
        f"{what}: {made[what]:,} made, {recorded[what]:,} recorded" for what in made if made[what] != recorded[what]
    ]
    if differences:
        return Finding(part, name, WRONG, "; ".join(differences), numbers=numbers)
    counts = ", ".join(f"{count:,} {what}" for what, count in made.items())
    return Finding(part, name, PROVEN, f"made and recorded: {counts}", numbers=numbers)
