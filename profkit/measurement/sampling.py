"""In which order samples are taken, for a fixed time: rounds, shuffling, who takes part. Starts no process.

Input: one Contender per implementation and a function that takes one turn. Output: samples by round.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.measurement.statistics.estimates import round_medians

SAMPLE_NS = 1e6
"""A sample lasts at least this long, so that reading the clock (some 50 ns) does not count."""
TURN_NS = 20e6
"""A turn holds as many samples as fit into this, at least one, at most TURN_SAMPLES."""
TURN_SAMPLES, COLD_TURN_SAMPLES = 10, 2
COOL_DOWN_NS = 200e6
"""A call this long refills the caches by itself: no warm-up call before its sample."""
SLOW = 2.0
"""A row whose turn takes this multiple of the quicker ones' does not take part in every round."""
LEAST_TURNS = 3
"""Of a slow row after round 0, if all of them together take no more than SLOW_SHARE of the time for that."""
SLOW_SHARE = 1.0 / 3.0


@dataclass
class Contender:
    """One implementation in the race: how long a call takes, and what was sampled so far."""

    key: str
    call_ns: float
    samples_ns: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    page_faults: list[float] = field(default_factory=list)
    cold: bool = False
    """Caches are flushed before each sample, which is then one call."""
    most_calls: int | None = None
    """Upper limit of calls per sample; a device's launch queue has one."""
    spent_s: float = 0.0
    turns: int = 0
    failed: bool = False

    @property
    def calls_per_sample(self) -> int:
        """Calls timed together as one sample."""
        wanted = 1 if self.cold else max(1, math.ceil(SAMPLE_NS / max(1.0, self.call_ns)))
        return min(wanted, self.most_calls or wanted)

    @property
    def samples_per_turn(self) -> int:
        """Samples taken each time it is this contender's turn; cold ones are few, as the flush takes longer."""
        most = COLD_TURN_SAMPLES if self.cold else TURN_SAMPLES
        return max(1, min(most, int(TURN_NS / max(1.0, self.call_ns * self.calls_per_sample))))

    @property
    def warm_calls(self) -> int:
        """Untimed calls at the start of a turn: the others have just used the caches."""
        return 0 if self.cold or self.call_ns >= COOL_DOWN_NS else self.calls_per_sample

    @property
    def turn_s(self) -> float:
        """What a turn takes: by experience, flushes and waking included; before the first one by the call's time."""
        if self.turns:
            return self.spent_s / self.turns
        calls = self.warm_calls + self.samples_per_turn * self.calls_per_sample
        return calls * self.call_ns * 1e-9

    def medians(self) -> dict[int, float]:
        """Its time in every round."""
        return round_medians(self.samples_ns, self.rounds)


def periods(turns_s: Mapping[str, float], baseline: str | None, left_s: float) -> dict[str, int]:
    """Each row takes part in every k-th round: k by the durations of its turns alone, never by its samples' spread.

    Quick rows and the baseline, without which the others' samples have no partner, take part in all.
    """
    others_s = [turn_s for key, turn_s in turns_s.items() if key != baseline] or list(turns_s.values())
    quick = float(np.quantile(others_s, 0.25, method="lower"))
    found = {
        key: 1 if key == baseline else max(1, math.ceil(turn_s / max(SLOW * quick, 1e-9)))
        for key, turn_s in turns_s.items()
    }
    rounds = left_s / max(1e-9, sum(turn_s / found[key] for key, turn_s in turns_s.items()))
    spare_s = SLOW_SHARE * left_s
    for key in sorted(found, key=lambda key: turns_s[key]):
        cost_s = LEAST_TURNS * turns_s[key]
        if found[key] * LEAST_TURNS > rounds and cost_s <= spare_s:
            spare_s -= cost_s
            found[key] = max(1, int(rounds // (LEAST_TURNS + 1)))
    return found


def race(
    contenders: Sequence[Contender],
    baseline: Contender | None,
    budget_s: float,
    take_turn: Callable[[Contender, int], None],
    tell: Callable[[float], None],
    first: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Sample all contenders in interleaved rounds of changing order until the budget ends; the next round's number.

    Nothing that was sampled is looked at, so nothing in it can end the race. Every row runs in the first round; after
    it every contender's period is fixed, and only a failure removes one. `take_turn` appends samples, or marks
    the contender failed.
    """
    begin = clock()
    if not contenders:
        return first

    def spent_s() -> float:
        return clock() - begin

    def run_turn(contender: Contender, index: int) -> None:
        before = clock()
        take_turn(contender, index)
        contender.spent_s += clock() - before
        contender.turns += 1
        tell(min(1.0, spent_s() / budget_s))

    for contender in shuffled(contenders, first):
        if not contender.failed:
            run_turn(contender, first)
    alive = [contender for contender in contenders if not contender.failed]
    if not alive:
        return first + 1
    partner = None if baseline is None or baseline.failed else baseline.key
    every = periods({c.key: c.turn_s for c in alive}, partner, budget_s - spent_s())
    places = {contender.key: place for place, contender in enumerate(alive)}
    index = first + 1
    while True:
        alive = [contender for contender in alive if not contender.failed]
        # The baseline runs in every round that was begun: without it the others' samples have no partner.
        partner_s = sum(contender.turn_s for contender in alive if contender is baseline)
        others_s = [contender.turn_s for contender in alive if contender is not baseline]
        if not alive or spent_s() + partner_s + min(others_s, default=0.0) > budget_s:
            return index
        due = [c for c in alive if (index - first + places[c.key]) % every[c.key] == 0]
        for contender in shuffled(due, index):
            reserved_s = 0.0 if contender is baseline else partner_s
            if contender is baseline or spent_s() + reserved_s + contender.turn_s <= budget_s:
                run_turn(contender, index)
            if contender is baseline:
                partner_s = 0.0
        index += 1


def shuffled(contenders: Sequence[Contender], index: int) -> list[Contender]:
    """The order of round `index`: a seeded shuffle every second round, and its reverse in the round after.

    So over each pair of rounds every row comes as early as late, and over many every row follows every other.
    """
    order = list(contenders)
    random.Random(index // 2).shuffle(order)
    return order[::-1] if index % 2 else order
