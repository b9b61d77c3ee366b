"""What a program answers: a command and its variables in, the JSON of its last line out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


def answer_of(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    """Run it to its end; a program that fails fails the test with what it said."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
