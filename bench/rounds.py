"""Cases run in turn, in rounds of changing order, so that what disturbs the machine disturbs all alike."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CaseSamples:
    """One case: all samples, in the order of the rounds."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def spread(self, digits: str = ".1f") -> str:
        """Median and the whole range seen."""
        low, high = min(self.samples), max(self.samples)
        return f"{self.median:{digits}} ({low:{digits}} to {high:{digits}})"


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int, seed: int = 1) -> dict[str, CaseSamples]:
    """Run every case once per round, each round in another order."""
    shuffle = random.Random(seed).shuffle
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds):
        names = list(cases)
        shuffle(names)
        for name in names:
            print(f"round {turn + 1} of {rounds}: {name}", file=sys.stderr)
            samples[name].append(cases[name]())
    return {name: CaseSamples(tuple(values)) for name, values in samples.items()}
