"""Virtual environments of frameworks that cannot live beside the others: where they lie, which Python runs them."""

from __future__ import annotations

import sys


def interpreter_for(framework: str) -> str:
    """The Python that runs this framework's worker: that of its own environment, else this one."""
    return sys.executable
