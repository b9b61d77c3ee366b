"""What a study declares: variants of a network, frameworks, how often and how long, and figures published before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profkit.ops.networks import Network, Training


@dataclass(frozen=True)
class Variant:
    name: str
    network: Network
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Runner:
    """A framework and the way it runs."""

    framework: str
    mode: str = ""
    """Empty: the framework's usual one."""

    @property
    def key(self) -> str:
        """As it is written in a study: torch, or torch/compile."""
        return f"{self.framework}/{self.mode}" if self.mode else self.framework


@dataclass(frozen=True)
class Learning:
    """How long each variant is trained before its precision is measured: once, as all frameworks compute the same."""

    runner: Runner
    steps: int
    limit_s: float | None
    """Ends earlier when this is over."""
    training: Training = field(default_factory=Training)


@dataclass(frozen=True)
class Figures:
    """Published numbers of one variant; None: not published. `focus_*` is about the study's focus operator."""

    focus_ms: float | None = None
    focus_percent: float | None = None
    """Share of all operators."""
    focus_bytes: float | None = None
    total_ms: float | None = None
    precision_percent: float | None = None


@dataclass(frozen=True)
class Published:
    """Figures that others measured, with their source; only ratios are compared."""

    source: str
    notes: Sequence[str] = ()
    figures: Mapping[str, Figures] = field(default_factory=dict)
    """By variant."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Percent of all operators' time by kind of operator, for the base."""
    recording_ratio: float | None = None
    """How many times slower the profiler made what it watched."""


@dataclass(frozen=True)
class Study:
    """A declared sweep, checked."""

    name: str
    title: str
    about: str
    variants: Sequence[Variant]
    base: str
    """The variant that ratios refer to."""
    runners: Sequence[Runner]
    focus: str
    """The kind of operator the summary is about; empty: the one that takes most time."""
    is_training: bool
    repetitions: int
    steps: int
    threads: int | None
    """None: all usable cores."""
    budget_s: float | None
    has_baseline: bool
    """Whether profkit's best kernels and the roofline are measured for every variant, layer by layer."""
    learning: Learning | None
    published: Published | None
    is_quick: bool = False

    def variant(self, name: str) -> Variant:
        return next(variant for variant in self.variants if variant.name == name)
