"""Programs that tests run to their end: a command in, what it printed or the JSON of its last line out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

TIMEOUT_S = 280
"""Less than a test has: a program that hangs fails with its name."""
COMPILING_FAST = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
"""Variables under which XLA makes the same program and leaves LLVM's optimisation of its code out, in half of the time:
for processes that ask whether results are right, and measure nothing.
"""


def finish(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; the exit code is the caller's to judge. Options are those of subprocess.run."""
    given = {"timeout": TIMEOUT_S, **options}
    return subprocess.run(
        [str(word) for word in command], env=environment, capture_output=True, text=True, check=False, **given
    )


def succeed(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, **options: Any) -> str:
    """It must end well; what it printed."""
    done = finish(command, environment, **options)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def answer_of(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Any:
    """The JSON of its last line."""
    return json.loads(succeed(command, environment).strip().splitlines()[-1])


def with_tests(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an interpreter that finds the modules of the tests."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**environment, "PYTHONPATH": path}


def answer_of_python(arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """The JSON on the last line that a fresh interpreter prints."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return answer_of([sys.executable, *arguments], with_tests(variables))


def wait_until(condition: Callable[[], bool], limit_s: float = 60.0) -> bool:
    """Poll; False when the condition did not come true in time."""
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def state_of(pid: int) -> str:
    """R, S, T, ... as in /proc; X where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def workers_of(parent: int) -> list[int]:
    """Live worker processes of this parent, each with its supervisor, by their command lines."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile
        if b"profkit.measurement.workers.operator" in words and f'"parent": {parent},'.encode() in words:
            found.append(int(folder.name))
    return found
