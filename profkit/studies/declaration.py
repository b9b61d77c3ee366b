"""What a study declares: sweeps over networks, frameworks, how often and how long, and figures published before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profkit.ops.networks import Network, Training

CPU, FLOAT32 = "cpu", "float32"
DEVICES, DTYPES = (CPU, "cuda"), (FLOAT32, "float64", "float16", "bfloat16")
FLOOR, CEIL = "floor", "ceil"


@dataclass(frozen=True)
class Setting:
    """How a variant runs, beside its network; each field is an axis too."""

    threads: int | None = None
    """None: those of the run."""
    training: bool = False
    optimizer: str = ""
    """Empty: that of [learning]."""
    data_fraction: float = 1.0
    """Of the images of an epoch."""
    device: str = CPU
    dtype: str = FLOAT32

    def reason_against(self) -> str:
        """Why networks do not run so; empty when they do."""
        if self.device != CPU:
            return f"networks run on the processor only, not on {self.device}"
        return f"networks run in {FLOAT32} only, not in {self.dtype}" if self.dtype != FLOAT32 else ""


@dataclass(frozen=True)
class Variant:
    name: str
    network: Network
    changes: Mapping[str, Any]
    """Parameters of the network and fields of the setting that make it another than the sweep's others."""
    setting: Setting = Setting()


@dataclass(frozen=True)
class SkipRule:
    """Cells that are not run: those with one of these values in every field."""

    values: Mapping[str, Sequence[Any]]
    """By axis, or `framework`."""
    reason: str

    def matches(self, changes: Mapping[str, Any], framework: str) -> bool:
        given = {**changes, FRAMEWORK: framework}
        return all(name in given and given[name] in values for name, values in self.values.items())


FRAMEWORK = "framework"


@dataclass(frozen=True)
class Epoch:
    """How many steps the study counts as training; its time is these steps times the measured one."""

    images: int
    epochs: int = 1
    rounding: str = FLOOR
    """Whether a last batch that is not full counts as a step: ceil."""

    def steps(self, batch: int, fraction: float = 1.0) -> int:
        """Of all epochs."""
        images = self.counted_images(fraction)
        return (images // batch if self.rounding == FLOOR else -(-images // batch)) * self.epochs

    def counted_images(self, fraction: float = 1.0) -> int:
        """Of one epoch."""
        return round(self.images * fraction)


@dataclass(frozen=True)
class PlotStyle:
    """What a sweep's plot shows: a quantity over an axis, a line per combination of the other axes."""

    x: str
    y: str
    is_log: bool = True
    colour: str = FRAMEWORK
    line: str = ""
    marker: str = ""
    """The axis (or `framework`) that each of the three stands for; empty: it stands for nothing."""


@dataclass(frozen=True)
class Sweep:
    """Variants of one network."""

    name: str
    variants: Sequence[Variant]
    base: str
    """The variant that ratios refer to."""
    focus: str = ""
    """The kind of operator that the summary is about; empty: the one that takes most time."""
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Empty where the variants are named."""
    skips: Sequence[SkipRule] = ()
    epoch: Epoch | None = None
    plot: PlotStyle | None = None

    def skip_reason(self, variant: Variant, framework: str) -> str:
        """Why this cell is not run; empty when it is."""
        rule = next((rule for rule in self.skips if rule.matches(variant.changes, framework)), None)
        return rule.reason if rule else variant.setting.reason_against()


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
class PublishedValue:
    """One number of a published table about one point of a sweep."""

    table: str
    sweep: str
    quantity: str
    """One of QUANTITIES."""
    point: Mapping[str, Any]
    """Values of axes, and `framework`: names that do not run here too."""
    value: float
    margin: float = 0.0
    """As far as its table says how far it repeats."""


STEP_MS, EPOCH_S, TOTAL_S, IMAGES_PER_S = "step_ms", "epoch_s", "total_s", "images_per_s"
PEAK_MB, SPEED_UP, ERROR_PERCENT = "peak_mb", "speed_up", "error_percent"
QUANTITIES = (STEP_MS, EPOCH_S, TOTAL_S, IMAGES_PER_S, PEAK_MB, SPEED_UP, ERROR_PERCENT)
PLOTTED = (STEP_MS, EPOCH_S, TOTAL_S, IMAGES_PER_S, PEAK_MB, SPEED_UP)


@dataclass(frozen=True)
class PublishedRatio:
    """What a publication says of two points of a sweep: how many times the one is the other."""

    where: str
    sweep: str
    quantity: str
    point: Mapping[str, Any]
    against: Mapping[str, Any]
    low: float
    high: float
    """Equal to `low` where it gives one number."""


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
    values: Sequence[PublishedValue] = ()
    """What its tables say of points of a sweep."""
    ratios: Sequence[PublishedRatio] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    """Of published frameworks: which of the study's takes the place of one that is not run."""


@dataclass(frozen=True)
class Study:
    """A declared sweep, checked."""

    name: str
    title: str
    about: str
    sweeps: Sequence[Sweep]
    runners: Sequence[Runner]
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

    @property
    def variants(self) -> list[Variant]:
        """Of all sweeps."""
        return [variant for sweep in self.sweeps for variant in sweep.variants]

    def places(self) -> list[tuple[Sweep, Variant]]:
        """Every variant with its sweep."""
        return [(sweep, variant) for sweep in self.sweeps for variant in sweep.variants]

    def parts(self) -> list[Study]:
        """The study of each sweep alone: ratios, analyses and panels are of one network."""
        return [replace(self, sweeps=[sweep]) for sweep in self.sweeps]

    @property
    def sweep(self) -> Sweep:
        """Of a part, which has one."""
        (sweep,) = self.sweeps
        return sweep

    @property
    def base(self) -> str:
        return self.sweep.base

    @property
    def focus(self) -> str:
        return self.sweep.focus

    def variant(self, name: str) -> Variant:
        return next(variant for variant in self.variants if variant.name == name)
