"""What a selftest leaves: plain data, one entry per kernel and per check, and its JSON form profkit.selftest/1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from profkit.measurement.result import finite_numbers

SCHEMA = "profkit.selftest/1"
PROVEN, NOT_PROVEN, WRONG = "proven", "not proven", "wrong"
"""Right here; could not be tried or decided here; tried, and not as it must be."""


@dataclass
class CheckResult:
    name: str
    status: str
    detail: str
    """What was compared, or why it could not be."""
    numbers: dict[str, Any] = field(default_factory=dict)
    part: str = ""
    """Key of the part that it belongs to: `recorder/host`, `timers/cuda`."""
    place: str = ""
    """The device, where there are several."""


@dataclass(frozen=True)
class CheckContext:
    folder: str
    """For captures."""
    limit_s: float
    """Of a program that it runs."""
    threads: int


@dataclass
class KernelProof:
    """One row of the registry on one instruction set or device."""

    key: str
    place: str
    """`avx512`, `cuda 0`."""
    kernel: str = ""
    """Key of the kernel; another one than `key` where that is a form of it."""
    status: str = NOT_PROVEN
    reason: str = ""
    shapes: int = 0
    """Shapes whose every run was right."""
    runs: int = 0
    """Shapes times sizes of blocks, configurations and thread counts."""
    refused: int = 0
    """Shapes that the kernel does not offer."""
    refusals: dict[str, int] = field(default_factory=dict)
    """Its reasons, and how many shapes have each."""
    refused_here: int = 0
    """Shapes among these that it takes on a usual device."""
    hung: bool = False
    """It did not end; its forms, and it on other instruction sets or devices, are left out then."""
    left: int = 0
    """Shapes that it offers and that were not run."""
    error: float | None = None
    tolerance: float | None = None
    """Error and tolerance of the run that came nearest to its tolerance, or went beyond it."""
    worst: dict[str, Any] | None = None
    """That run's spec, with its threads and sizes of blocks."""

    @property
    def share(self) -> float:
        """Of its tolerance that the worst run used."""
        return 0.0 if self.error is None or not self.tolerance else self.error / self.tolerance

    def take_error(self, error: float, tolerance: float, run: Mapping[str, Any]) -> None:
        """Keep the run that used most of its tolerance."""
        if self.error is None or error / tolerance > self.share:
            self.error, self.tolerance, self.worst = error, tolerance, dict(run)


@dataclass
class SelftestReport:
    environment: dict[str, Any]
    is_full: bool
    only: list[str]
    date: str = ""
    """When it began, UTC."""
    build: dict[str, Any] = field(default_factory=dict)
    """Of the compiled modules `core` and `cuda`: their facts and ids; the commit that was installed, where known."""
    cuda: dict[str, str] = field(default_factory=dict)
    """Versions of the driver and of the runtime."""
    kernels: list[KernelProof] = field(default_factory=list)
    findings: list[CheckResult] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    """Facts of the CUDA devices."""
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def statuses(self) -> list[str]:
        return [*(proof.status for proof in self.kernels), *(finding.status for finding in self.findings)]

    @property
    def is_wrong(self) -> bool:
        return WRONG in self.statuses

    def count(self, status: str) -> int:
        return self.statuses.count(status)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; an error that is NaN is null."""
        record: dict[str, Any] = finite_numbers({"schema": SCHEMA, "is_wrong": self.is_wrong, **asdict(self)})
        return record
