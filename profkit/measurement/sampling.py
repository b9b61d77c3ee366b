"""In which order samples are taken and when enough is known: rounds, shuffling, budget. Talks to no process.

Enters: one Contender per implementation and a function that takes one turn. Leaves: samples by round.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from profkit.measurement.statistics import Estimate, ratio_estimate, round_medians, time_estimate, verdict

SAMPLE_NS = 1e6
"""A sample lasts at least this long, so that reading the clock (some 50 ns) does not count."""
TURN_NS = 20e6
"""A turn holds as many samples as fit into this, at least one, at most TURN_SAMPLES."""
TURN_SAMPLES, COLD_TURN_SAMPLES = 10, 2
COOL_DOWN_NS = 200e6
"""A call this long refills the caches by itself: no warm-up call before its sample."""
LEAST_ROUNDS = 12
"""Before this many rounds no row is called finished. Six was tried first: 26 of 30 intervals of
bench/injected_delay.py held the truth, too few for 95 %; twelve was chosen on that ground."""


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

    @property
    def round_count(self) -> int:
        """Rounds in which it was sampled."""
        return len(set(self.rounds))

    def medians(self) -> dict[int, float]:
        """Its time in every round."""
        return round_medians(self.samples_ns, self.rounds)


@dataclass(frozen=True)
class Rules:
    """When to stop."""

    budget_s: float
    margin: float

    def is_finished(self, contender: Contender, baseline: Contender | None, fair_share_s: float) -> bool:
        """Resolved and narrow enough; one whose next turn exceeds its share of the budget need only be resolved.

        Without a baseline the time itself must be narrow.
        """
        if baseline is None:
            own = time_estimate(contender.samples_ns, contender.rounds)
            return contender.round_count >= LEAST_ROUNDS and own.half_width <= self.margin
        ratio = ratio_estimate(baseline.medians(), contender.medians())
        if ratio is None or verdict(ratio, self.margin) == "not resolved":
            return False
        if contender.spent_s + contender.turn_s > fair_share_s:
            return contender.round_count >= 2
        return contender.round_count >= LEAST_ROUNDS and ratio.half_width <= self.wanted_half_width(ratio)

    def wanted_half_width(self, ratio: Estimate) -> float:
        """Near 1 the margin itself; farther away up to 5 %, because no decision depends on more."""
        return max(self.margin, min(0.05, 0.1 * abs(math.log(ratio.value))))


def checkpoints() -> Callable[[int], bool]:
    """Rounds at which stopping is considered: few, because every test is another chance of a false positive."""
    looks = set(range(2, LEAST_ROUNDS + 1))  # those before LEAST_ROUNDS only end rows that cost too much
    step = LEAST_ROUNDS
    while step < 100_000:
        step = math.ceil(step * 1.5)
        looks.add(step)
    return lambda rounds: rounds in looks


def race(
    contenders: Sequence[Contender],
    baseline: Contender | None,
    rules: Rules,
    take_turn: Callable[[Contender, int], None],
    tell: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Sample all contenders in interleaved rounds of changing order until all are finished or the budget ends.

    Everybody runs in round 0. Then come those of which several turns fit into a fair share of the budget, and
    last, with what is left, the slow ones: a reference kernel must not take the time that close rows need.
    `take_turn` appends samples, or marks the contender failed.
    """
    begin = clock()
    is_checkpoint = checkpoints()
    fair_share_s = rules.budget_s / max(1, len(contenders))
    index = 0

    def spent_s() -> float:
        return clock() - begin

    def rival() -> Contender | None:
        """Whom the others are compared with; nobody when the baseline failed or is alone."""
        return baseline if baseline is not None and not baseline.failed and len(contenders) > 1 else None

    def run_round(active: Sequence[Contender], limit_s: float) -> None:
        nonlocal index
        for contender in shuffled(active, index):
            # The baseline runs in every round that was begun: without it the others' samples have no partner.
            is_late = index > 0 and contender is not baseline and spent_s() + contender.turn_s > limit_s
            if contender.failed or is_late:
                continue
            before = clock()
            take_turn(contender, index)
            contender.spent_s += clock() - before
            contender.turns += 1
            tell(min(1.0, spent_s() / rules.budget_s))
        index += 1

    def run_heat(heat: Sequence[Contender], limit_s: float) -> None:
        """Rounds of some contenders and the baseline, until they are finished or the limit is reached."""
        active = list(heat)
        while active:
            compared_with = rival()
            partner = [compared_with] if compared_with else []
            if spent_s() + sum(c.turn_s for c in partner) + min(c.turn_s for c in active) > limit_s:
                return
            run_round([*partner, *active], limit_s)
            active = [contender for contender in active if not contender.failed]
            if is_checkpoint(index):
                active = [c for c in active if not rules.is_finished(c, rival(), fair_share_s)]

    if not contenders:
        return
    run_round(contenders, rules.budget_s)
    others = [contender for contender in contenders if contender is not rival() and not contender.failed]
    slow = [contender for contender in others if 2.0 * contender.turn_s > fair_share_s]
    # One more turn each, and some more, because under load a turn takes longer than the one before.
    reserve_s = min(1.5 * sum(contender.turn_s for contender in slow), rules.budget_s / 3.0)
    run_heat([contender for contender in others if contender not in slow], rules.budget_s - reserve_s)
    run_heat(slow, rules.budget_s)


def shuffled(contenders: Sequence[Contender], index: int) -> list[Contender]:
    """The order of round `index`: a seeded shuffle every second round, and its reverse in the round after.

    So over each pair of rounds everybody comes as early as late, and over many everybody follows everybody.
    """
    order = list(contenders)
    random.Random(index // 2).shuffle(order)
    return order[::-1] if index % 2 else order
