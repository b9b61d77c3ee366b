"""Event sources, one per framework: each watches a built network run and leaves Recordings. Worker side.

A source is a module that follows the EventSource protocol. Standard library and NumPy 1.23 only, besides the
framework itself.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from profkit.capture.schema import Capture
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.ops.networks.network import Network

TIME, MEMORY, PRIMITIVES = "time", "memory", "primitives"
CALL_BY_CALL = ("native", "numpy", "numba")
"""Frameworks whose networks profkit runs itself, one operator after another."""


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
    network: Network
    built: BuiltNetwork
    conditions: NetworkConditions
    step: Callable[[], Any]
    """Runs one step of inference or training to completion."""

    def run(self, steps: int) -> list[tuple[int, int]]:
        """Runs this number of steps; when each began and ended by our clock."""
        times = []
        for _ in range(steps):
            begin = time.perf_counter_ns()
            self.step()
            times.append((begin, time.perf_counter_ns()))
        return times


class EventSource(Protocol):
    """One framework's way to say whose time and bytes it was."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """All ways of this framework that together fill the tables, the one for time first.

        Passes with different environments run in separate processes. A pass that cannot run here (no compiler,
        unknown ABI) is replaced by its fallback inside `record`, which says so in the capture's facts["notes"].
        """
        ...

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run this number of steps under the pass of this name. Warm-up was done; set-up is not part of any step."""
        ...


def load_source(framework: str) -> EventSource:
    """The source in `profkit/frameworks/<framework>/events.py`, or the one of networks that are run call by call."""
    if framework in CALL_BY_CALL:
        from profkit.frameworks.events.scopes import ScopeSource

        return ScopeSource(framework)
    source: Any = importlib.import_module(f"profkit.frameworks.{framework}.events")
    found: EventSource = source
    return found
