"""A/A: one kernel under several names in one table, many runs; is a difference claimed that is not there?

Run: python bench/same_kernel_twice.py --results DIR   (about 12 minutes; it goes on where it was killed)
     python bench/same_kernel_twice.py --results DIR --render > docs/measured/same_kernel_twice.md
     python bench/same_kernel_twice.py --quick

Exit code: 0 the goal is met, 4 it is missed.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

from kept_runs import Goal, KeptRuns, goal_table, judged_ratio, none_accused, open_runs, options, share, too_busy_line
from kernel_under_test import WORDS, write_candidate

NAMES, RUNS = 11, 30
"""So 300 comparisons."""
QUICK_NAMES, QUICK_RUNS = 3, 2
QUICK = ("--budget", "1s")
PREFIX = "twice-"
COMMAND = "python bench/same_kernel_twice.py --results DIR"


def main(argv: Sequence[str]) -> int:
    """Measure what is missing, print the page."""
    arguments = options(__doc__ or "", ()).parse_args(argv)
    runs = open_runs(arguments)
    if not arguments.render:
        measure(runs, arguments.quick)
    text, goals = page(runs)
    print(text)
    return 0 if all(goal.is_met for goal in goals) else 4


def measure(runs: KeptRuns, is_quick: bool) -> None:
    """Every run is a table whose rows are all the same kernel; the first is the baseline."""
    names = [f"name{number}" for number in range(QUICK_NAMES if is_quick else NAMES)]
    paths = [write_candidate(runs.folder, name) for name in names]
    words = [*WORDS, "--only", "candidate/*", "--baseline", f"candidate/cpu/{names[0]}", *(QUICK if is_quick else ())]
    words += [word for path in paths for word in ("--candidate", path)]
    runs.run_until_judged(PREFIX, QUICK_RUNS if is_quick else RUNS, "conv", words)


def page(runs: KeptRuns) -> tuple[str, list[Goal]]:
    """The page, and its goals."""
    lines, verdicts, logs, too_busy, tables = [], Counter[str](), [], set(), 0
    for name, result in runs.results(PREFIX).items():
        (cell,) = result.cells
        tables += 1
        texts = []
        for row in (row for row in cell.rows if row.key != cell.baseline):
            ratio = judged_ratio(cell, row.key)
            if ratio is None:
                too_busy.add(name)
                texts.append("not judged")
                continue
            verdicts[row.verdict] += 1
            logs.append(abs(math.log(ratio.value)))
            texts.append(f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}] {row.verdict}")
        lines.append(f"| {name.removeprefix(PREFIX)} | {' | '.join(texts)} |")
    count = sum(verdicts.values())
    false = count - verdicts["same"] - verdicts["not resolved"]
    goals = [
        Goal("no verdict but `same` and `not resolved`", f"{false} in {count} comparisons", false == 0),
        Goal("at least 300 comparisons", str(count), count >= 300),
        none_accused(runs.results(PREFIX)),
    ]
    columns = len(lines[0].split("|")) - 3 if lines else 1
    text = "\n".join(
        [
            runs.head("One kernel under several names", COMMAND),
            f"`profkit conv {' '.join(WORDS)}` with its default budget, {tables} runs.",
            f"Each table has {columns + 1} rows, all the same kernel; the first is the baseline. Comparisons of one",
            "table share it, so they are not independent of each other.",
            f"{too_busy_line(too_busy)}\n",
            goal_table(goals),
            "",
            f"Verdicts: {', '.join(f'{word} {share(part, count)}' for word, part in verdicts.most_common())}.",
            f"Largest distance of a ratio from 1: {100 * max(logs, default=0.0):.2f} %.\n",
            f"| run | {' | '.join(f'name{number + 1}' for number in range(columns))} |",
            f"|---|{'---|' * columns}",
            *lines,
        ]
    )
    return text, goals


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
