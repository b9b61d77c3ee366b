"""How long a worker ran and was paused, and what processor time it and all that it started used meanwhile.

Input: readings when it is paused and resumed. Output: sums.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """The clocks at one moment, in seconds."""

    at_s: float
    cpu_s: float
    """Of the worker and all that it started."""
    main_s: float
    """Of the worker's first thread, which makes the calls."""


@dataclass
class WorkerTimes:
    """Sums over its life, in seconds."""

    ran_s: float = 0.0
    cpu_s: float = 0.0
    main_s: float = 0.0
    paused_s: float = 0.0
    paused_cpu_s: float = 0.0
    """It should be 0: what is stopped cannot run."""
    has_left_cores: bool = False
    """A thread of it was seen that may run on other processors than it was given."""
    is_raised: bool = False
    """A thread of it was seen whose priority is above that of this process."""
    is_tampered_with: bool = False
    """Somebody changed its processors or priority while it was stopped."""
    _last: Reading | None = None
    _is_paused: bool = False

    @property
    def used_s(self) -> float:
        """All processor time up to the last pause or resumption."""
        return self.cpu_s + self.paused_cpu_s

    def pause(self, now: Reading) -> None:
        """It is stopped."""
        if self._last is not None and not self._is_paused:
            self.ran_s += now.at_s - self._last.at_s
            self.cpu_s += max(0.0, now.cpu_s - self._last.cpu_s)
            self.main_s += max(0.0, now.main_s - self._last.main_s)
        self._last, self._is_paused = now, True

    def resume(self, now: Reading) -> None:
        """It may run from now on."""
        if self._last is not None and self._is_paused:
            self.paused_s += now.at_s - self._last.at_s
            self.paused_cpu_s += max(0.0, now.cpu_s - self._last.cpu_s)
        self._last, self._is_paused = now, False
