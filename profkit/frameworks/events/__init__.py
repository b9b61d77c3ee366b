"""Event sources, one per framework: each watches a built network run and leaves Recordings. Worker side.

A source's module has SOURCE, which follows the Source protocol. Standard library and NumPy 1.23 only, besides the
framework itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from profkit.capture.schema import Capture
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.ops.networks.network import Network

TIME, MEMORY, PRIMITIVES = "time", "memory", "primitives"


@dataclass(frozen=True)
class Pass:
    """One way to watch: what it is good for, and the variables it needs before the worker starts."""

    name: str
    measures: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    """What the reader of its numbers must know (another allocator, Grappler off, ...)."""


@dataclass(frozen=True)
class SourceSubject:
    """What a source watches."""

    network: Network
    built: BuiltNetwork
    conditions: NetworkConditions
    step: Callable[[], Any]
    """Runs one step of inference or training to completion."""


class EventSource(Protocol):
    """One framework's way to say whose time and bytes it was."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """All ways of this framework that together fill the tables, the one for time first.

        Passes with different environments run in processes of their own. A pass that cannot run here (no compiler,
        unknown ABI) is replaced by its fallback inside `record`, which says so in the capture's facts["notes"].
        """
        ...

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run so many steps under the pass of this name. Warm-up was done; set-up is not part of any step."""
        ...


def load_source(framework: str) -> EventSource:
    """The source in `profkit/frameworks/<framework>/events.py`."""
    source: EventSource = importlib.import_module(f"profkit.frameworks.{framework}.events").SOURCE
    return source
