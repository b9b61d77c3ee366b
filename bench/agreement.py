"""Do runs agree? Long recordings cut into runs of the default budget, and the real command run again.

Run: python bench/agreement.py --results DIR --section recordings   (about 43 minutes; it goes on where it was killed)
     python bench/agreement.py --results DIR --section reruns       (about 18 minutes)
     python bench/agreement.py --results DIR --render         (prints the page)
     python bench/agreement.py --quick

A recording is one run of a command with `--budget 200s`. Its rounds are cut into runs of 15 s, as many rounds in each,
and every run is judged by what judges a table (CellSamples). `python bench/noise_replay.py DIR` replays other
estimators on the recordings. Exit code: 0 all goals are met, 4 one is missed.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, permutations
from typing import Any, cast

import numpy as np
from kept_runs import Goal, KeptRuns, Ratio, goal_table, open_runs, options, share
from neighbour import neighbour

from profkit.measurement.cell_rows import CellSamples
from profkit.measurement.options import MeasureOptions
from profkit.measurement.result import Cell, Row
from profkit.measurement.sampling import Contender

RECORDINGS, RERUNS = "recordings", "reruns"
SHAPES = {
    "conv-8": ("conv", "--batch", "8", "--stride", "2", "--threads", "1"),
    "conv-16": ("conv", "--batch", "16", "--stride", "2"),
    "matmul-32": ("matmul", "--m", "32", "--n", "1000", "--k", "4096", "--threads", "1"),
    "matmul-96": ("matmul", "--m", "96", "--n", "200", "--k", "700", "--threads", "1"),
    "pool": ("pool",),
    "softmax": ("softmax", "--threads", "1"),
}
QUICK_SHAPES = ("matmul-96",)
QUICK_ROWS = ("--only", "numpy,native")
QUIET, BUSY = "quiet", "neighbour"
RECORDED_S, RUN_S = 200.0, MeasureOptions().budget_s
QUICK_RECORDED_S, QUICK_RUN_S = 5.0, 1.0
TIMES, QUICK_TIMES = 5, 2
HEAD = (
    "| | runs | too busy | others took | holds another run's ratio | without the floor | disjoint | opposite verdicts "
    "| against `same` |"
)
LEAST, MOST = 0.80, 0.92
"""A sound interval of 95 % holds another run's ratio in 83 %: that one has noise of its own."""


@dataclass(frozen=True)
class Judged:
    """One row of one run."""

    ratio: Ratio
    verdict: str


@dataclass
class Agreement:
    """What the runs of one table say about each other."""

    intervals: int = 0
    held: int = 0
    """Of the pairs of an interval and another run's ratio."""
    held_without_floor: int = 0
    disjoint: int = 0
    pairs: int = 0
    opposite: int = 0
    against_same: int = 0
    too_busy: int = 0
    runs: int = 0
    others_share: float = 0.0

    def add(self, other: Agreement) -> None:
        """Together."""
        for item in fields(self):
            if item.name != "others_share":
                setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, print the page."""
    arguments = options(__doc__ or "", (RECORDINGS, RERUNS)).parse_args(argv)
    runs = open_runs(arguments)
    if not arguments.render:
        sections = (arguments.section,) if arguments.section else (RECORDINGS, RERUNS)
        if RECORDINGS in sections:
            record(runs, arguments.quick)
        if RERUNS in sections:
            rerun(runs, arguments.quick)
    text, goals = page(runs)
    print(text)
    return 0 if all(goal.is_met for goal in goals) else 4


def words_of(shape: str, is_quick: bool) -> list[str]:
    """What is typed behind the operator; a GPU would need a page of its own."""
    return [*SHAPES[shape][1:], "--device", "cpu", *(QUICK_ROWS if is_quick else ())]


def record(runs: KeptRuns, is_quick: bool) -> None:
    """Each shape on the quiet machine, then with a neighbour."""
    budget_s = QUICK_RECORDED_S if is_quick else RECORDED_S
    for condition in (QUIET, BUSY):
        for seed, shape in enumerate(QUICK_SHAPES if is_quick else SHAPES):
            with neighbour(seed) if condition == BUSY else contextlib.nullcontext():
                words = [*words_of(shape, is_quick), "--budget", f"{budget_s:g}s"]
                runs.run(f"{condition}-{shape}", SHAPES[shape][0], words)


def rerun(runs: KeptRuns, is_quick: bool) -> None:
    """All shapes, then all again: runs of one shape are minutes apart."""
    quick_budget = ("--budget", f"{QUICK_RUN_S:g}s") if is_quick else ()
    for number in range(QUICK_TIMES if is_quick else TIMES):
        for shape in QUICK_SHAPES if is_quick else SHAPES:
            runs.run(f"again-{shape}-{number}", SHAPES[shape][0], [*words_of(shape, is_quick), *quick_budget])


# --- From a recording to runs ---


class RecordedWatch:
    """What disturbed the rounds of one run, as the recording has it."""

    def __init__(self, dropped: dict[str, list[int]], machine: dict[str, float]) -> None:
        self._dropped, self._machine = dropped, machine

    def dropped(self) -> dict[str, list[int]]:
        """Rounds by reason."""
        return self._dropped

    def facts(self) -> dict[str, float]:
        """Of the whole recording."""
        return self._machine

    def not_watched(self) -> list[str]:
        """The recording's own notes say it."""
        return []


def cut(cell: Cell, count: int) -> list[Cell]:
    """The recording as this number of tables, with equal numbers of rounds."""
    count = min(count, cell.rounds)  # a quick recording on a busy machine may have next to none
    length = cell.rounds // max(1, count)
    return [judged_part(cell, number * length, (number + 1) * length) for number in range(count)]


def judged_part(cell: Cell, begin: int, end: int) -> Cell:
    """The table of some rounds, judged as a run of its own."""
    dropped = {why: [at - begin for at in rounds if begin <= at < end] for why, rounds in cell.dropped.items()}
    contenders = {}
    for row in cell.rows:
        own = [(ns, at - begin) for ns, at in zip(row.samples_ns, row.sample_rounds) if begin <= at < end]
        if own and row.status == "ok":
            contenders[row.key] = Contender(row.key, own[0][0], [ns for ns, _ in own], [at for _, at in own])
    samples = CellSamples(
        spec=cell.spec,
        options=MeasureOptions(baseline=cell.baseline),
        threads=cell.threads,
        cache=cell.cache,
        output=cell.output,
        rows={key: Row(key, "ok") for key in contenders},
        contenders=contenders,
        watch=cast("Any", RecordedWatch({why: rounds for why, rounds in dropped.items() if rounds}, cell.machine)),
        rounds=end - begin,
    )
    samples.floor, samples.floor_from = cell.floor, cell.floor_from  # not what the machine has now
    return samples.judged({})


# --- From runs to agreement ---


def agreement(cells: Sequence[Cell]) -> Agreement:
    """Every run against every other, row by row; runs without a verdict for want of quiet do not count."""
    found = Agreement(runs=len(cells), too_busy=sum(cell.is_too_busy for cell in cells))
    shares = [cell.machine["others_share"] for cell in cells if "others_share" in cell.machine]
    found.others_share = float(np.mean(shares)) if shares else math.nan
    rows: dict[str, list[Judged]] = {}
    for cell in cells:
        for row in cell.rows if not cell.is_too_busy else ():
            if row.verdict != "baseline" and None not in (row.ratio, row.ratio_low, row.ratio_high):
                ratio = Ratio(row.ratio or 0.0, row.ratio_low or 0.0, row.ratio_high or 0.0)
                rows.setdefault(row.key, []).append(Judged(ratio, row.verdict))
    for judged in rows.values():
        for own, other in permutations(judged, 2):
            found.intervals += 1
            found.held += own.ratio.holds(other.ratio.value)
        for one, two in combinations(judged, 2):
            found.pairs += 1
            found.disjoint += one.ratio.high < two.ratio.low or two.ratio.high < one.ratio.low
            verdicts = {one.verdict, two.verdict}
            found.opposite += verdicts == {"faster", "slower"}
            found.against_same += verdicts in ({"faster", "same"}, {"slower", "same"})
    return found


def with_and_without_floor(cells: Sequence[Cell], count: int) -> Agreement:
    """Of all runs that the cells are cut into; the floor is a guard, and its share of the width should be seen."""
    found, bare = (
        agreement([part for cell in shown for part in cut(cell, count)])
        for shown in (cells, [replace(cell, floor=0.0) for cell in cells])
    )
    found.held_without_floor = bare.held
    return found


def table(found: dict[str, Agreement]) -> str:
    """A line per recording or shape, and one for all."""
    total = Agreement()
    for each in found.values():
        total.add(each)
    total.others_share = float(np.mean([each.others_share for each in found.values()] or [math.nan]))
    lines = [HEAD, f"|{'---|' * (HEAD.count('|') - 1)}"]
    for name, each in {**found, "all": total}.items():
        lines.append(
            f"| {name} | {each.runs} | {each.too_busy} | {100 * each.others_share:.1f} % "
            f"| {share(each.held, each.intervals)} | {share(each.held_without_floor, each.intervals)} "
            f"| {share(each.disjoint, each.pairs)} | {each.opposite} | {each.against_same} |"
        )
    return "\n".join(lines)


def page(runs: KeptRuns) -> tuple[str, list[Goal]]:
    """The page, and its goals."""
    goals, parts = [], []
    for condition in (QUIET, BUSY):
        found = {}
        for name, result in runs.results(f"{condition}-").items():
            (cell,) = result.cells
            count = round(QUICK_RECORDED_S / QUICK_RUN_S if runs.is_quick else RECORDED_S / RUN_S)
            found[name.removeprefix(f"{condition}-")] = with_and_without_floor([cell], count)
        held, whole = sum(each.held for each in found.values()), sum(each.intervals for each in found.values())
        goals.append(
            Goal(
                f"{condition}: {100 * LEAST:.0f} to {100 * MOST:.0f} % of the intervals hold another run's ratio",
                share(held, whole),
                bool(whole) and LEAST <= held / whole <= MOST,
            )
        )
        parts.append(f"## Recordings, {condition}\n\n{table(found)}\n")
    again = {}
    for shape in SHAPES:
        results = runs.results(f"again-{shape}-").values()
        if results:
            again[shape] = with_and_without_floor([cell for result in results for cell in result.cells], 1)
    opposite, pairs = (sum(getattr(each, name) for each in again.values()) for name in ("opposite", "pairs"))
    goals.append(Goal("reruns: no opposite verdicts", f"{opposite} in {pairs} pairs", bool(pairs) and not opposite))
    parts.append(f"## The same command again\n\n{table(again)}\n")
    commands = "\n".join(f"- {name}: `profkit {' '.join(words)}`" for name, words in SHAPES.items())
    floors = {f"{100 * c.floor:.2g} % ({c.floor_from})" for r in runs.results("").values() for c in r.cells}
    about = ABOUT.format(recorded=RECORDED_S, run=RUN_S, times=TIMES, floors=", ".join(sorted(floors)))
    head = runs.head("Do runs agree?", "python bench/agreement.py --results DIR")
    return "\n".join([head, about, commands, "", goal_table(goals), "", *parts]), goals


ABOUT = """Recordings of {recorded:g} s, one quiet and one beside bench/neighbour.py per shape, are cut into runs of
{run:g} s (as many rounds in each), which are judged as tables are. A sound interval of 95 % holds another run's ratio
in 83 %; more is too wide. *disjoint*: pairs of intervals that do not touch. *others took*: share of the processors'
time. Runs that were too busy to judge do not count. Runs of one recording follow each other at once; those of the same
command are {times} per shape, minutes apart, in new processes. Noise floor {floors}.
It is one number for all rows and conditions; docs/measurement.md says under Limits what follows from that.
"""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
