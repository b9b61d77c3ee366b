"""A fresh Python for tests of what must happen in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.places import ROOT


def run_python(arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """The JSON on the last line that a fresh interpreter prints; fails with what it wrote to stderr."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
