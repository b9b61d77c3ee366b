"""pynvml without a driver: one GPU whose clock, temperature and reasons a test sets, and that can be lost."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any


class NVMLError(Exception):
    """As in nvidia-ml-py."""


class FakeNvml(types.ModuleType):
    """Answers come in the order given; the last one stays. `lost_after` so many questions every further one fails."""

    def __init__(
        self,
        mhz: Sequence[int] = (1410,),
        reasons: Sequence[int] = (0,),
        celsius: Sequence[int] = (50,),
        lost_after: int | None = None,
    ) -> None:
        super().__init__("pynvml")
        self.mhz, self.reasons, self.celsius = list(mhz), list(reasons), list(celsius)
        self.lost_after = lost_after
        self.asked_for: list[Any] = []
        self.names: list[str] = ["A fake GPU"]
        self.is_open = False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names, here and below
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        """Older packages give bytes."""
        return b"580.65"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """One device, unless there are names of more."""
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        self.asked_for.append(index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        self.asked_for.append(uuid)
        return "handle"

    def nvmlDeviceGetHandleByPciBusId(self, place: str) -> Any:  # noqa: N802
        self.asked_for.append(place)
        return 0

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802
        return str(self.names[handle])

    def nvmlDeviceGetClockInfo(self, handle: Any, clock: int) -> int:  # noqa: N802
        return self._next(self.mhz)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> int:  # noqa: N802
        return self._next(self.reasons)

    def nvmlDeviceGetTemperatureV(self, handle: Any, sensor: int) -> int:  # noqa: N802
        return self._next(self.celsius)

    def _next(self, answers: list[int]) -> int:
        if self.lost_after is not None:
            if self.lost_after == 0:
                raise NVMLError("GPU is lost")
            self.lost_after -= 1
        return answers.pop(0) if len(answers) > 1 else answers[0]
