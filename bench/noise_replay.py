"""Recorded comparisons cut into runs: how often does a run's 95 % interval hold another run's ratio?

Each recording (.npz) has `ns[i, r]`, the time of `keys[i]` in round r, and `seconds_per_round`; keys that begin with
`probe/` are two short loops, tried as covariates. An estimator is chosen by `choose` on the first half of each
recording and judged on the second. A folder may also hold results (.json) of bench/agreement.py.
Run: python bench/noise_replay.py [FOLDER] [--quick] > docs/measured/noise_replay.md   (about 1 minute)
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from measured_page import page_head

from profkit.measurement.result import Cell, Row, read_result
from profkit.measurement.statistics.estimates import (
    NORMAL,
    PROJECTIONS,
    Floats,
    block_centres,
    cosine_projections,
    log_interval,
    long_run_error,
    middle_mean,
)
from profkit.measurement.statistics.student import student_t

FOLDER = Path(__file__).parents[2] / "shared" / "noise"
PROBE = "probe/"
LENGTHS_S = (5, 10, 15)
FLOOR = 0.005
SOUND = 0.83
"""Of intervals that hold the truth in 95 %, so many hold another run's value: it has noise of its own."""
LEAST, MOST = 0.80, 0.92
"""What the choice allows, and the goal of bench/agreement.py."""
THIN = 10
"""A table of eleven rows has a tenth of the rounds of one with three rows in the same time."""
SHORT_ROUND_S = 0.05
"""Longer rounds are of such a table already."""
LEAST_RECORDED_S, LEAST_ROUNDS = 120, 8
"""Of a result that is taken for a recording, and of a row in the shortest run."""
RIDGE = 0.2
PROBES_LEFT_OUT, IN_RUN, REMEMBERED = "without", "fitted in the run", "fitted on the first half"
Estimator = Callable[[Floats], float]
"""Logarithms of a run's ratios in; half-width of the interval out."""


@dataclass(frozen=True)
class RecordedPair:
    """One pair of one recording, or half of it."""

    recording: str
    pair: str
    round_s: float
    logs: Floats
    probes: Floats
    """Logarithms of the probes' times, a column each; no columns where none were recorded."""

    def half(self, number: int) -> RecordedPair:
        """The first or the second half; probes relative to the first half's, as a machine could remember them."""
        middle = len(self.logs) // 2
        part = slice(middle) if number == 0 else slice(middle, None)
        usual = np.median(self.probes[:middle], axis=0)
        return replace(self, logs=self.logs[part], probes=self.probes[part] - usual)

    def forms(self) -> list[RecordedPair]:
        """As recorded, and thinned where few rows took part."""
        return [self, self.thinned()] if self.round_s < SHORT_ROUND_S else [self]

    def thinned(self) -> RecordedPair:
        """As if more rows had taken part."""
        return replace(self, round_s=THIN * self.round_s, logs=self.logs[::THIN], probes=self.probes[::THIN])


@dataclass(frozen=True)
class Score:
    """How an estimator did on one series, or the mean over several."""

    held: float
    half_width: float
    disjoint: float


Scores = Mapping[str, Sequence[Score]]
"""By estimator: every pair and length, with every round and thinned."""


def main() -> int:
    """Print the page; exit 1 when what profkit uses is not sound on the second halves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="recordings, .npz")
    parser.add_argument("--quick", action="store_true", help="runs of 15 s only, every tenth round: does it work?")
    arguments = parser.parse_args()
    folder = arguments.folder
    series = list(read_series(folder)) if folder.is_dir() else []
    if not series:
        raise SystemExit(f"no recordings (.npz, .json) in {folder}: name their folder")
    lengths = LENGTHS_S[-1:] if arguments.quick else LENGTHS_S
    if arguments.quick:
        series = [each.forms()[-1] for each in series]
    first, second = ([each.half(number) for each in series] for number in (0, 1))
    print(
        page_head("Intervals replayed on recorded noise", "python bench/noise_replay.py" + " --quick" * arguments.quick)
    )
    print(PREFACE.format(sound=round(100 * SOUND)))
    print(CHOICE.format(least=round(100 * LEAST), most=round(100 * MOST), thin=THIN))
    scores = [all_scores(half, lengths) for half in (first, second)]
    chosen = choose(scores[0])
    print(f"\n## First halves, no floor\n\n{score_table(scores[0])}\n\nChosen: **{chosen or 'none'}**.")
    print(f"\n## Second halves, no floor\n\n{score_table(scores[1])}\n")
    print(how_it_fares(chosen, scores[1]))
    print(f"\nThe other way round, the second halves choose {choose(scores[1]) or 'none'}.")
    print(f"\n## Second halves, with a floor of {100 * FLOOR:g} %\n\n{score_table(all_scores(second, lengths, FLOOR))}")
    print_judgement(second, LENGTHS_S[-1], f"Second halves by recording, runs of {LENGTHS_S[-1]} s")
    if any(len(each.forms()) > 1 for each in second):
        print_judgement([each.forms()[-1] for each in second], LENGTHS_S[-1], THINNED)
    print_covariates(first, second, lengths, USED)
    print(f"\n## In use\n\n{in_use(chosen, scores)}")
    return int(not is_sound(scores[1][USED]))


USED = f"{PROJECTIONS} cosines"
PREFACE = """Each recording is 240 s of rounds in which implementations took turns; ratios are paired by round, relative
to the recording's first implementation. It is cut into runs. *holds*: share of pairs of runs in which the interval of
one holds the ratio of the other ({sound} % is sound; more is too wide). *±*: half-width. *disjoint*: pairs whose
intervals do not touch."""
CHOICE = """
The rule, computed by this program: of the estimators whose intervals hold {least} to {most} % on the first halves (mean
over all pairs of implementations, runs of 5, 10 and 15 s, with every round and, where rounds are short, with every
{thin}th), without a floor, the narrowest (geometric mean of *±*). The second halves have no part in it. Rule and limits
were set before it was first computed. It is not the first rule that was tried on these recordings (earlier ones
looked at both halves), so whoever set it had seen tables of them; new recordings are the better test, and
bench/agreement.py makes them."""
THINNED = f"The same with every {THIN}th round, as in a table of eleven rows"


def read_series(folder: Path) -> Iterator[RecordedPair]:
    """Every pair of every recording."""
    for path in sorted(folder.glob("*.json")):
        for cell in read_result(path).cells:
            if cell.seconds >= LEAST_RECORDED_S and cell.baseline is not None:
                yield from _of_cell(path.stem, cell, cell.row(cell.baseline))
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            keys, logs = [str(key) for key in data["keys"]], np.log(data["ns"].astype(np.float64))
            round_s = float(data["seconds_per_round"])
        probes = logs[[key.startswith(PROBE) for key in keys]].T
        for key, own in list(zip(keys, logs))[1:]:
            if not key.startswith(PROBE):
                yield RecordedPair(path.stem, f"{key} / {keys[0]}", round_s, logs[0] - own, probes)


def _of_cell(name: str, cell: Cell, baseline: Row) -> Iterator[RecordedPair]:
    """Its rows against the baseline; those that took part too seldom for a short run are left out."""
    for row in cell.rows:
        logs = cell.log_ratios(baseline, row)
        if row is not baseline and len(logs) * LENGTHS_S[0] / cell.seconds >= LEAST_ROUNDS:
            yield RecordedPair(name, row.key, cell.seconds / len(logs), logs, np.empty((len(logs), 0)))


# --- Estimators that profkit does not use ---


def split_centres(logs: Floats, count: int) -> Floats:
    """Centres of exactly this number of blocks."""
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


def white_and_flicker(logs: Floats) -> float:
    """A spectrum that is white and 1 / frequency, fitted to all cosines; runs scatter by the Allan variance of both.

    Mean over the ratio of the two parts, weighted by likelihood, so that few values do not choose one extreme.
    """
    centres = block_centres(logs, 128)
    count = len(centres)
    powers = np.square(cosine_projections(centres, count - 1))
    parts = np.concatenate([[0.0], np.logspace(-3.0, 2.0, 40)])
    shapes = 1.0 + np.outer(parts, count / np.arange(1, count))
    levels = (powers / shapes).mean(axis=1)
    likely = -0.5 * ((count - 1) * np.log(levels) + np.log(shapes).sum(axis=1))
    weights = np.exp(likely - likely.max())
    variances = levels * (1.0 / count + 2.0 * math.log(2.0) * parts)
    return student_t(8) * math.sqrt(float(weights @ variances / weights.sum()))


def cosines(logs: Floats, count: int) -> float:
    """What profkit uses, with this number of projections."""
    error, degrees = long_run_error(logs, count)
    return student_t(degrees) * error


ESTIMATORS: dict[str, Estimator] = {
    "bootstrap over rounds": bootstrap,
    "8 blocks, t": partial(batch_means, count=8),
    "4 blocks, t": partial(batch_means, count=4),
    "extrapolated blocks": extrapolated,
    **{f"{count} cosines": partial(cosines, count=count) for count in (4, 5, 6, 7, 8)},
    "local Whittle": local_whittle,
    "white and flicker": white_and_flicker,
}


# --- Replay ---


def runs_of(series: RecordedPair, seconds: float, coefficients: Floats | None = None) -> list[Floats]:
    """The runs' log-ratios, without what probes explain by these coefficients."""
    logs = series.logs if coefficients is None else series.logs - series.probes @ coefficients
    count = int(seconds / series.round_s)
    return [logs[begin : begin + count] for begin in range(0, len(logs) - count + 1, count)]


def runs_without_probes(series: RecordedPair, seconds: float) -> list[Floats]:
    """The runs' log-ratios, without what probes explain by coefficients fitted inside each run."""
    count = int(seconds / series.round_s)
    parts = [slice(begin, begin + count) for begin in range(0, len(series.logs) - count + 1, count)]
    return [
        series.logs[part] - series.probes[part] @ fitted(series.logs[part], series.probes[part], series.round_s)
        for part in parts
    ]


def fitted(logs: Floats, probes: Floats, round_s: float) -> Floats:
    """Ridge regression on half-second means: coefficients near 0 unless the series says otherwise."""
    blocks = min(len(logs), max(4, int(len(logs) * round_s / 0.5)))
    x = np.array([part.mean(axis=0) for part in np.array_split(probes, blocks)])
    y = np.array([part.mean() for part in np.array_split(logs, blocks)])
    x, y = x - x.mean(axis=0), y - y.mean()
    scale = np.maximum(x.std(axis=0), 1e-9)
    x = x / scale
    result: Floats = np.linalg.solve(x.T @ x + RIDGE * len(y) * np.eye(x.shape[1]), x.T @ y) / scale
    return result


def score(runs: Sequence[Floats], estimator: Estimator, floor: float = 0.0) -> Score:
    """Every run against every other."""
    centres = np.array([middle_mean(run) for run in runs])
    reaches = np.array([math.hypot(estimator(run), NORMAL * floor) for run in runs])
    apart = np.abs(centres[:, None] - centres[None, :])
    others = ~np.eye(len(runs), dtype=bool)
    return Score(
        float(np.mean((apart <= reaches[:, None])[others])),
        float(reaches.mean()),
        float(np.mean((apart > reaches[:, None] + reaches[None, :])[others])),
    )


def mean_score(scores: Sequence[Score]) -> Score:
    """Of widths the geometric mean: recordings differ in scale."""
    return Score(
        float(np.mean([each.held for each in scores])),
        math.exp(float(np.mean([math.log(each.half_width) for each in scores]))),
        float(np.mean([each.disjoint for each in scores])),
    )


def all_scores(series: Sequence[RecordedPair], lengths: Sequence[int], floor: float = 0.0) -> Scores:
    """Every estimator on every pair and length, with every round and thinned."""
    cut = [runs_of(shown, seconds) for seconds in lengths for each in series for shown in each.forms()]
    found = {}
    for name, estimator in ESTIMATORS.items():
        print(f"{name}: {len(cut)} series of runs", file=sys.stderr)
        found[name] = [score(runs, estimator, floor) for runs in cut]
    return found


def is_sound(scores: Sequence[Score]) -> bool:
    """Whether its intervals are neither too narrow nor too wide in the mean."""
    return LEAST <= mean_score(scores).held <= MOST


def choose(scores: Scores) -> str | None:
    """The narrowest of the sound ones; None when none is."""
    sound = [name for name, found in scores.items() if is_sound(found)]
    return min(sound, key=lambda name: mean_score(scores[name]).half_width, default=None)


def how_it_fares(chosen: str | None, scores: Scores) -> str:
    """In a sentence."""
    if chosen is None:
        return "No estimator is sound on the first halves."
    found = mean_score(scores[chosen])
    met = "met" if is_sound(scores[chosen]) else "missed"
    return (
        f"The chosen estimator, {chosen}, holds {100 * found.held:.0f} % here, ±{100 * found.half_width:.2f} %; "
        f"goal {100 * LEAST:.0f} to {100 * MOST:.0f} %: {met}."
    )


def in_use(chosen: str | None, scores: Sequence[Scores]) -> str:
    """What profkit uses, and why it is or is not the rule's choice."""
    own = [mean_score(each[USED]) for each in scores]
    held = f"{100 * own[0].held:.0f} % on the first halves and {100 * own[1].held:.0f} % on the second"
    text = f"profkit uses {USED} with the floor; without it they hold {held}, ±{100 * own[1].half_width:.2f} %."
    if chosen is None or chosen == USED:
        return text
    narrower = 1.0 - mean_score(scores[1][chosen]).half_width / own[1].half_width
    if is_sound(scores[1][chosen]):
        return (
            f"{text} The rule's choice, {chosen}, is sound on the second halves too, {100 * narrower:.0f} % narrower."
        )
    return (
        f"{text} The rule's choice, {chosen}, is {100 * narrower:.0f} % narrower, but did not stand the test of the "
        "second halves, so it was not taken. That what is in use holds on both halves is no blind proof: it was chosen "
        "with both in view."
    )


def by_recording(series: Sequence[RecordedPair]) -> dict[str, list[RecordedPair]]:
    """In order."""
    names = dict.fromkeys(each.recording for each in series)
    return {name: [each for each in series if each.recording == name] for name in names}


def score_table(scores: Scores) -> str:
    """A line per estimator."""
    lines = ["| estimator | holds | worst pair | ± | disjoint |", "|---|---|---|---|---|"]
    for name, found in scores.items():
        mean, worst = mean_score(found), min(each.held for each in found)
        lines.append(
            f"| {name} | {100 * mean.held:.1f} % | {100 * worst:.0f} % | {100 * mean.half_width:.2f} % "
            f"| {100 * mean.disjoint:.1f} % |"
        )
    return "\n".join(lines)


def print_judgement(series: Sequence[RecordedPair], seconds: int, title: str) -> None:
    """Estimators down, recordings across, without and with the floor."""
    groups = by_recording(series)
    print(f"\n## {title}\n\nholds, ±, disjoint; without a floor, then with one of {100 * FLOOR:g} %.\n")
    print(f"| estimator | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}")
    for name, estimator in ESTIMATORS.items():
        texts = [
            "; ".join(
                _text(mean_score([score(runs_of(each, seconds), estimator, floor) for each in group]))
                for floor in (0.0, FLOOR)
            )
            for group in groups.values()
        ]
        print(f"| {name} | {' | '.join(texts)} |")


def print_covariates(
    first: Sequence[RecordedPair], second: Sequence[RecordedPair], lengths: Sequence[int], name: str
) -> None:
    """The chosen estimator with and without what two probes in each round explain; the same rule decides."""
    halves = [[each for each in half if each.probes.shape[1]] for half in (first, second)]
    if not halves[0]:
        return
    remembered = [fitted(each.logs, each.probes, each.round_s) for each in halves[0]]
    ways: dict[str, Callable[[RecordedPair, float, Floats], list[Floats]]] = {
        PROBES_LEFT_OUT: lambda each, seconds, _: runs_of(each, seconds),
        IN_RUN: lambda each, seconds, _: runs_without_probes(each, seconds),
        REMEMBERED: runs_of,
    }
    print(COVARIATES.format(name=name))
    names = list(by_recording(halves[1]))
    print(f"| half | probes | all | {' | '.join(names)} |\n|---|---|---|{'---|' * len(names)}")
    for half, title in zip(halves, ("first", "second")):
        for way, cut in ways.items():
            if half is halves[0] and way == REMEMBERED:
                continue  # its own data
            found = {
                recording: [
                    score(cut(each, seconds, known), ESTIMATORS[name])
                    for each, known in zip(half, remembered)
                    if each.recording == recording
                    for seconds in lengths
                ]
                for recording in names
            }
            every = [each for group in found.values() for each in group]
            texts = [_text(mean_score(group)) for group in (every, *found.values())]
            print(f"| {title} | {way} | {' | '.join(texts)} |")
    print(COVARIATES_IN_USE)


COVARIATES = """
## With the probes as covariates

{name}, no floor; of the recordings with probes, every round, runs of all lengths: holds, ±, disjoint. Coefficients by
ridge regression on half-second means, fitted inside each run, or once on the first half and kept, as a machine could
remember them.
"""

COVARIATES_IN_USE = """
profkit takes no probes. Fitted inside a run they harm. Coefficients that are known make intervals narrower, but they
differ by pair: it would take two more turns in every round, and a recording of some two minutes of the very pair, kept
per machine, before its first table."""


def _text(found: Score) -> str:
    return f"{100 * found.held:.0f} %, ±{100 * found.half_width:.2f} %, {100 * found.disjoint:.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
