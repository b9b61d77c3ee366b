"""Recorded comparisons cut into runs: how often does a run's 95 % interval hold another run's ratio?

Each recording (.npz) has `ns[i, r]`, the time of `keys[i]` in round r, and `seconds_per_round`; keys that begin with
`probe/` are two short loops, tried as covariates. Estimators are chosen on the first half of each recording and judged
on the second.
Run: python bench/noise_replay.py [FOLDER] > docs/measured/noise_replay.md   (about 2 minutes)
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from measured_page import page_head

from profkit.measurement.statistics import (
    NORMAL,
    PROJECTIONS,
    Floats,
    block_centres,
    log_interval,
    long_run_error,
    middle_mean,
    student_t,
)

FOLDER = Path(__file__).parents[2] / "shared" / "noise"
PROBE = "probe/"
LENGTHS_S = (5, 10, 15)
FLOORS = (0.0, 0.005)
SOUND = 0.83
"""Of intervals that hold the truth in 95 %, so many hold another run's value: it has noise of its own."""
WORST = 0.10
THIN = 10
"""A table of eleven rows has a tenth of these recordings' rounds in the same time."""
RIDGE = 0.2
Estimator = Callable[[Floats], float]
"""Logarithms of a run's ratios in; half-width of the interval out."""


@dataclass(frozen=True)
class Series:
    """One pair of one recording, or half of it."""

    recording: str
    pair: str
    round_s: float
    logs: Floats
    probes: Floats
    """Logarithms of the probes' times, a column each; no columns where none were recorded."""

    def half(self, number: int) -> Series:
        """The first or the second half; probes relative to the first half's, as a machine could remember them."""
        middle = len(self.logs) // 2
        part = slice(middle) if number == 0 else slice(middle, None)
        usual = np.median(self.probes[:middle], axis=0)
        return Series(self.recording, self.pair, self.round_s, self.logs[part], self.probes[part] - usual)

    def thinned(self) -> Series:
        """As if more rows had taken part."""
        return Series(self.recording, self.pair, THIN * self.round_s, self.logs[::THIN], self.probes[::THIN])


@dataclass(frozen=True)
class Score:
    """How an estimator did on one series."""

    held: float
    half_width: float
    disjoint: float
    penalty: float
    """Interval score: the width, and what lies outside, weighted for intervals that hold SOUND; less is better."""


def main() -> int:
    """Print the page; exit 1 when what profkit uses is not the choice of the first halves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="recordings, .npz")
    folder = parser.parse_args().folder
    series = list(read_series(folder)) if folder.is_dir() else []
    if not series:
        raise SystemExit(f"no recordings (.npz) in {folder}: name their folder")
    print(page_head("Intervals replayed on recorded noise", "python bench/noise_replay.py"))
    print(PREFACE.format(sound=round(100 * SOUND)))
    chosen = print_choice([each.half(0) for each in series])
    judged = [each.half(1) for each in series]
    print("\n## The same on the second halves")
    for floor in FLOORS:
        print_shortfall(judged, floor)
    for seconds in LENGTHS_S:
        print_judgement(judged, seconds, f"Judged on the second halves, runs of {seconds} s")
    print_judgement([each.thinned() for each in judged], LENGTHS_S[-1], THINNED)
    print_covariates(judged)
    used = f"{PROJECTIONS} cosines"
    print(PROBES)
    print(f"\nprofkit uses {used} with the floor.")
    return int(chosen != used)


PREFACE = """Each recording is 240 s of rounds in which implementations took turns; ratios are paired by round, relative
to the recording's first implementation. It is cut into runs. *holds*: share of pairs of runs in which the interval of
one holds the ratio of the other ({sound} % is sound; more is too wide). *±*: mean half-width. *disjoint*: pairs whose
intervals do not touch. Numbers are means over the pairs of implementations of a recording."""
CHOICE = """*short*: by how many points *holds* of a pair is below {sound} %; over all pairs and lengths, with every
round and with every {thin}th. *±* and *score* (interval score: width, and a penalty for what lies outside; less is
better): geometric means. The narrowest whose worst pair is at most {worst} points short is chosen.

This rule is not independent of the data. It is the third that was tried: least distance from {sound} % with the floor
chose the bootstrap, and so did the interval score on these halves. Its limit of {worst} points was set when the results
of both halves had been seen, and 6 cosines miss it narrowly. It was preferred because the bootstrap's good means hide
pairs that are tens of points short. So the second halves below are no blind test; new recordings would be."""
PROBES = """
profkit takes no probes: with one ridge parameter and coefficients fitted inside each run, they help some recordings and
harm others, as the table shows. Other parameters, or coefficients remembered over runs, were not tried."""
THINNED = f"Every {THIN}th round, as in a table of eleven rows: second halves, runs of {LENGTHS_S[-1]} s"


def read_series(folder: Path) -> Iterator[Series]:
    """Every pair of every recording."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            keys, logs = [str(key) for key in data["keys"]], np.log(data["ns"].astype(np.float64))
            round_s = float(data["seconds_per_round"])
        probes = logs[[key.startswith(PROBE) for key in keys]].T
        for key, own in list(zip(keys, logs))[1:]:
            if not key.startswith(PROBE):
                yield Series(path.stem, f"{key} / {keys[0]}", round_s, logs[0] - own, probes)


# --- Estimators that profkit does not use ---


def split_centres(logs: Floats, count: int) -> Floats:
    """Centres of exactly so many blocks."""
    return np.array([middle_mean(block) for block in np.array_split(logs, count)])


def bootstrap(logs: Floats) -> float:
    """Rounds resampled as if they were independent."""
    found = log_interval(np.exp(logs), middle_mean)
    return math.log((found.high or math.inf) / (found.low or math.inf)) / 2.0


def batch_means(logs: Floats, count: int) -> float:
    """Blocks of time, Student's t over them."""
    means = split_centres(logs, count)
    return student_t(count - 1) * float(np.std(means, ddof=1)) / math.sqrt(count)


def extrapolated(logs: Floats) -> float:
    """Variance of block means against block length, a line on log axes, extended to the length of the run."""
    counts = [count for count in (32, 16, 8, 4) if count <= len(logs)]
    lengths = np.log([len(logs) / count for count in counts])
    variances = np.log([max(1e-14, float(np.var(split_centres(logs, count), ddof=1))) for count in counts])
    slope = min(0.0, max(-1.0, float(np.polyfit(lengths, variances, 1)[0])))
    level = float(np.mean(variances - slope * lengths))
    return student_t(10) * math.sqrt(math.exp(level + slope * math.log(len(logs))))


def local_whittle(logs: Floats) -> float:
    """Long memory: the exponent by local Whittle, and the variance of the mean that follows from it."""
    centres = block_centres(logs, 128)
    count = len(centres)
    used = int(count**0.65)
    frequencies = 2.0 * math.pi * np.arange(1, used + 1) / count
    spectrum = np.abs(np.fft.fft(centres - centres.mean())[1 : used + 1]) ** 2 / (2.0 * math.pi * count)

    def misfit(memory: float) -> float:
        level = float(np.mean(frequencies ** (2.0 * memory) * spectrum))
        return math.log(max(level, 1e-300)) - 2.0 * memory * float(np.mean(np.log(frequencies)))

    memory = max(0.0, min(np.linspace(-0.3, 0.49, 80), key=misfit))
    level = float(np.mean(frequencies ** (2.0 * memory) * spectrum))
    shape = 2.0 * math.pi
    if memory > 1e-3:
        gamma, sine = math.gamma(1.0 - 2.0 * memory), math.sin(math.pi * memory)
        shape = 2.0 * gamma * sine / (memory * (1.0 + 2.0 * memory))
    return student_t(max(3, used // 3)) * math.sqrt(level * shape * count ** (2.0 * memory - 1.0))


def cosines(logs: Floats, count: int) -> float:
    """What profkit uses, with so many projections."""
    error, degrees = long_run_error(logs, count)
    return student_t(degrees) * error


ESTIMATORS: dict[str, Estimator] = {
    "bootstrap over rounds": bootstrap,
    "8 blocks, t": partial(batch_means, count=8),
    "4 blocks, t": partial(batch_means, count=4),
    "extrapolated blocks": extrapolated,
    **{f"{count} cosines": partial(cosines, count=count) for count in (4, 5, 6, 8)},
    "local Whittle": local_whittle,
}


# --- Replay ---


def runs_of(series: Series, seconds: float, with_probes: bool) -> list[Floats]:
    """The runs' log-ratios; with probes, what they explain is taken out by coefficients fitted inside each run."""
    count = int(seconds / series.round_s)
    parts = [slice(begin, begin + count) for begin in range(0, len(series.logs) - count + 1, count)]
    if not with_probes:
        return [series.logs[part] for part in parts]
    return [without_probes(series.logs[part], series.probes[part], series.round_s) for part in parts]


def without_probes(logs: Floats, probes: Floats, round_s: float) -> Floats:
    """Ridge regression on half-second means: coefficients near 0 unless the run says otherwise."""
    blocks = max(4, int(len(logs) * round_s / 0.5))
    x = np.array([part.mean(axis=0) for part in np.array_split(probes, blocks)])
    y = np.array([part.mean() for part in np.array_split(logs, blocks)])
    x, y = x - x.mean(axis=0), y - y.mean()
    scale = np.maximum(x.std(axis=0), 1e-9)
    x = x / scale
    coefficients = np.linalg.solve(x.T @ x + RIDGE * len(y) * np.eye(x.shape[1]), x.T @ y) / scale
    result: Floats = logs - probes @ coefficients
    return result


def score(series: Series, seconds: float, estimator: Estimator, floor: float, with_probes: bool = False) -> Score:
    """Every run against every other."""
    runs = runs_of(series, seconds, with_probes)
    centres = np.array([middle_mean(run) for run in runs])
    reaches = np.array([math.hypot(estimator(run), NORMAL * floor) for run in runs])
    apart = np.abs(centres[:, None] - centres[None, :])
    others = ~np.eye(len(runs), dtype=bool)
    outside = np.maximum(0.0, apart - reaches[:, None])
    return Score(
        float(np.mean((apart <= reaches[:, None])[others])),
        float(reaches.mean()),
        float(np.mean((apart > reaches[:, None] + reaches[None, :])[others])),
        float(np.mean((2.0 * reaches[:, None] + 2.0 / (1.0 - SOUND) * outside)[others])),
    )


def mean_score(scores: Sequence[Score]) -> Score:
    """Over the pairs of a recording."""
    return Score(*(float(np.mean([getattr(each, name) for each in scores])) for name in Score.__annotations__))


def by_recording(series: Sequence[Series]) -> dict[str, list[Series]]:
    """In order."""
    names = dict.fromkeys(each.recording for each in series)
    return {name: [each for each in series if each.recording == name] for name in names}


def print_choice(series: Sequence[Series]) -> str:
    """The narrowest of those that are sound for every pair: a reader looks at one row of a table."""
    print("\n## Chosen on the first halves\n")
    print(CHOICE.format(sound=round(100 * SOUND), thin=THIN, worst=round(100 * WORST)))
    scores = print_shortfall(series, 0.0)
    sound = [name for name, found in scores.items() if max(map(shortfall, found)) <= WORST]
    chosen = min(sound or scores, key=lambda name: geometric_mean([each.half_width for each in scores[name]]))
    best = min(scores, key=lambda name: geometric_mean([each.penalty for each in scores[name]]))
    print(f"\nChosen: **{chosen}**. By the interval score it would be {best}.")
    return chosen


def print_shortfall(series: Sequence[Series], floor: float) -> dict[str, list[Score]]:
    """One line per estimator over all pairs and lengths, with every round and thinned."""
    print(f"\n| estimator, floor {100 * floor:g} % | short, mean | short, worst | ± | score |\n|---|---|---|---|---|")
    scores = {
        name: [
            score(shown, seconds, estimator, floor)
            for seconds in LENGTHS_S
            for each in series
            for shown in (each, each.thinned())
        ]
        for name, estimator in ESTIMATORS.items()
    }
    for name, found in scores.items():
        short = [100 * shortfall(each) for each in found]
        width = 100 * geometric_mean([each.half_width for each in found])
        penalty = 100 * geometric_mean([each.penalty for each in found])
        print(f"| {name} | {np.mean(short):.1f} | {max(short):.0f} | {width:.2f} % | {penalty:.2f} % |")
    return scores


def shortfall(found: Score) -> float:
    """By how much it holds other runs' ratios too seldom."""
    return max(0.0, SOUND - found.held)


def geometric_mean(values: Sequence[float]) -> float:
    """Recordings differ in scale."""
    return math.exp(float(np.mean(np.log(values))))


def print_judgement(series: Sequence[Series], seconds: float, title: str) -> None:
    """One table: estimators down, recordings across, without and with the floor."""
    groups = by_recording(series)
    print(f"\n## {title}\n\nholds, ±, disjoint; without a floor, then with one of {100 * FLOORS[1]:g} %.\n")
    print(f"| estimator | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}")
    for name, estimator in ESTIMATORS.items():
        texts = [
            "; ".join(_text(mean_score([score(each, seconds, estimator, floor) for each in group])) for floor in FLOORS)
            for group in groups.values()
        ]
        print(f"| {name} | {' | '.join(texts)} |")


def print_covariates(series: Sequence[Series]) -> None:
    """The same runs with and without what two probes in each round explain."""
    groups = by_recording([each for each in series if each.probes.shape[1]])
    print("\n## With the probes as covariates\n")
    print(
        "Coefficients by ridge regression inside each run, probes relative to their median in the first half. holds, ±,"
    )
    print("disjoint without a floor: without -> with the probes.\n")
    print(f"| estimator, run | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}")
    for name, estimator in ESTIMATORS.items():
        for seconds in LENGTHS_S:
            texts = []
            for group in groups.values():
                pair = [
                    mean_score([score(each, seconds, estimator, 0.0, probes) for each in group])
                    for probes in (False, True)
                ]
                texts.append(" -> ".join(map(_text, pair)))
            print(f"| {name}, {seconds} s | {' | '.join(texts)} |")


def _text(found: Score) -> str:
    return f"{100 * found.held:.0f} %, ±{100 * found.half_width:.2f} %, {100 * found.disjoint:.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
