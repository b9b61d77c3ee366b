"""profkit._cuda without CUDA: the same devices, timer and memory questions; what was called, in order."""

from __future__ import annotations

import time
import types
from typing import Any

L2_BYTES = 40 << 20
DEVICE = {
    "index": 0,
    "name": "A fake GPU",
    "capability": 80,
    "multiprocessors": 108,
    "shared_bytes_per_block": 166912,
    "l2_bytes": L2_BYTES,
    "memory_bytes": 40 << 30,
    "clock_khz": 1_410_000,
    "memory_clock_khz": 1_215_000,
    "memory_bus_bits": 5120,
    "has_ecc": True,
}


class FakeTimer:
    """profkit._cuda.DeviceTimer; the device's clock is the host's, because what is enqueued runs at once."""

    def __init__(self, module: FakeCuda, stream: int, give_up_after_s: float) -> None:
        self.module = module
        self.times: list[float] = []
        module.called.append(f"timer {stream} {give_up_after_s:g}")

    def hold(self) -> None:
        self.module.called.append("hold")
        self.module.is_held = True

    def begin(self) -> None:
        self.module.called.append("begin")
        self.times = [time.perf_counter_ns()]

    def end(self) -> None:
        self.module.called.append("end")
        self.times.append(time.perf_counter_ns())

    def release(self) -> None:
        self.module.called.append("release")
        self.module.is_held = False

    def finish(self) -> tuple[float, bool]:
        """Time between the events; a hold that somebody waited for has given up."""
        self.module.called.append("finish")
        gave_up, self.module.gave_up = self.module.gave_up, False
        return float(self.times[1] - self.times[0]), gave_up

    def flush(self, bytes: int) -> None:
        self.module.called.append(f"flush {bytes}")


class FakeCuda(types.ModuleType):
    """The module; `gave_up` is what the next sample's hold will have done."""

    def __init__(self) -> None:
        super().__init__("profkit._cuda")
        self.called: list[str] = []
        self.is_held = self.gave_up = False
        self.free_bytes = [DEVICE["memory_bytes"]]

    def devices(self) -> list[dict[str, Any]]:
        return [dict(DEVICE)]

    def use_device(self, index: int) -> None:
        """For calls of this thread."""
        self.called.append(f"device {index}")

    def synchronize(self, stream: int) -> None:
        """Wait for the stream; with a held one that takes until the hold gives up."""
        self.called.append(f"wait {stream}")
        self.gave_up |= self.is_held

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes; the answers in the order of `free_bytes`, the last one for ever."""
        free = self.free_bytes.pop(0) if len(self.free_bytes) > 1 else self.free_bytes[0]
        return int(str(free)), int(str(DEVICE["memory_bytes"]))

    def DeviceTimer(self, stream: int, give_up_after_s: float) -> FakeTimer:  # noqa: N802 - a class there
        return FakeTimer(self, stream, give_up_after_s)
