"""A GPU's clocks, temperature and reasons for throttling, read through NVML (nvidia-ml-py) where it is installed.

Input: a device's ordinal as CUDA counts. Output: facts for the fingerprint, whether it is throttled right now, and
what a reader of a row must know of it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

INSTALL = 'pip install "profkit[gpu]"'
SM_CLOCK, MEMORY_CLOCK = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
TEMPERATURE_OF_GPU = 0  # NVML_TEMPERATURE_GPU
NOT_WATCHED = "clocks"
"""The fact that says why nothing was seen."""
STEADY = 0.95
"""A lowest clock above this share of the highest is not reported: clocks change in steps of 15 MHz."""

# Bits of nvmlDeviceGetCurrentClocksEventReasons that make a device slower than it could be; idling and fixed
# clocks are not throttling.
THROTTLES: Mapping[int, str] = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal limit (driver)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}


@dataclass
class ClockWatch:
    """Read after every sample; keeps the observed clocks."""

    read_reasons: Callable[[], int]
    read_mhz: Callable[[], int]
    read_celsius: Callable[[], int]
    seen_mhz: list[int] = field(default_factory=list)
    seen_celsius: list[int] = field(default_factory=list)
    seen_reasons: set[str] = field(default_factory=set)
    trouble: str = ""
    """Why it sees nothing, or no more."""

    def is_throttled(self) -> bool:
        """Whether something holds the clocks down now; no where that cannot be read, and `trouble` says so."""
        if self.trouble:
            return False
        try:
            reasons = throttle_words(self.read_reasons())
            mhz, celsius = self.read_mhz(), self.read_celsius()
        except Exception as error:  # NVML's own types; a lost device shows here before the next launch fails
            self.trouble = f"NVML: {error}"
            return False
        self.seen_mhz.append(mhz)
        self.seen_celsius.append(celsius)
        self.seen_reasons.update(reasons)
        return bool(reasons)

    def facts(self) -> dict[str, str]:
        """The observations since the watch began, for the row."""
        facts = {NOT_WATCHED: f"not watched: {self.trouble}"} if self.trouble else {}
        if self.seen_mhz:
            facts["sm_clock_mhz"] = f"{min(self.seen_mhz)} to {max(self.seen_mhz)}"
            facts["temperature_c"] = f"{min(self.seen_celsius)} to {max(self.seen_celsius)}"
        if self.seen_reasons:
            facts["throttled_by"] = ", ".join(sorted(self.seen_reasons))
        return facts

    def remark(self) -> str:
        """Reasons to doubt the row's times: a clock that changed, throttling; usually empty."""
        remarks = []
        if self.seen_mhz and min(self.seen_mhz) < STEADY * max(self.seen_mhz):
            remarks.append(f"the GPU's clock moved between {min(self.seen_mhz)} and {max(self.seen_mhz)} MHz")
        if self.seen_reasons:
            remarks.append(
                f"the GPU was throttled by {', '.join(sorted(self.seen_reasons))} at up to {max(self.seen_celsius)} °C"
            )
        return "; ".join(remarks)


def throttle_words(reasons: int) -> list[str]:
    """The bits that count as throttling, in words."""
    return [word for bit, word in THROTTLES.items() if reasons & bit]


def open_watch(ordinal: int, pci_bus_id: str = "") -> ClockWatch:
    """A watch of this device, or one that only reports why it cannot read."""
    try:
        nvml = open_nvml()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id) if pci_bus_id else handle_of(nvml, ordinal)
    except Exception as error:  # NVML's own types, ImportError
        return ClockWatch(lambda: 0, lambda: 0, lambda: 0, trouble=str(error))
    # Older packages have the same call under an older name only.
    newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return ClockWatch(
        lambda: reasons(handle),
        lambda: nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK),
        lambda: temperature(nvml, handle),
    )


def temperature(nvml: Any, handle: Any) -> int:
    """Degrees Celsius; the call without V goes with CUDA 14, the one with it is not in older packages."""
    ask = getattr(nvml, "nvmlDeviceGetTemperatureV", None) or nvml.nvmlDeviceGetTemperature
    return int(ask(handle, TEMPERATURE_OF_GPU))


def open_nvml() -> Any:
    """The module, with the driver's library open; ImportError with the line to type where it is not installed."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise ImportError(f"nvidia-ml-py is not installed: {INSTALL}") from error
    nvml.nvmlInit()
    return nvml


def handle_of(nvml: Any, ordinal: int) -> Any:
    """NVML's handle of CUDA's device number `ordinal`, as far as the environment shows it: NVML does not know it.

    CUDA lists the fastest device first unless it is configured to list devices as NVML does.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [part.strip() for part in visible.split(",")] if visible else []
    name = names[ordinal] if ordinal < len(names) else str(ordinal)
    if not name.isdigit():
        return nvml.nvmlDeviceGetHandleByUUID(name)
    count = nvml.nvmlDeviceGetCount()
    if count > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        kinds = {_text(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(count)}
        if len(kinds) > 1:
            kinds_text = ", ".join(sorted(kinds))
            raise LookupError(f"which of {kinds_text} CUDA uses is not known; set CUDA_DEVICE_ORDER=PCI_BUS_ID")
    return nvml.nvmlDeviceGetHandleByIndex(int(name))


def gpu_facts() -> dict[str, Any]:
    """Every GPU of this machine for the fingerprint, or why none is known."""
    try:
        nvml = open_nvml()
        count = nvml.nvmlDeviceGetCount()
    except Exception as error:  # as above
        return {"devices": [], "reason": str(error)}
    try:
        devices = [_device_facts(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
        return {"driver": _text(nvml.nvmlSystemGetDriverVersion()), "devices": devices}
    finally:
        nvml.nvmlShutdown()


def _device_facts(nvml: Any, handle: Any) -> dict[str, Any]:
    """State that affects a GPU's times; None where this device does not report it."""
    questions: dict[str, Callable[[], Any]] = {
        "name": lambda: _text(nvml.nvmlDeviceGetName(handle)),
        "uuid": lambda: _text(nvml.nvmlDeviceGetUUID(handle)),
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK),
        "sm_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, SM_CLOCK),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, MEMORY_CLOCK),
        "memory_clock_max_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, MEMORY_CLOCK),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0,
        "temperature_c": lambda: temperature(nvml, handle),
        "memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
        "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "persistence": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
    }
    return {name: _answer(ask) for name, ask in questions.items()}


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:  # "not supported" has a separate NVML type, which is not importable without NVML
        return None


def _text(value: str | bytes) -> str:
    """Older packages give bytes."""
    return value.decode() if isinstance(value, bytes) else value
