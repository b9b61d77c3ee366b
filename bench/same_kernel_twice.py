"""A/A: one kernel under two names, many runs; how often does profkit claim a difference that is not there?

Run: python bench/same_kernel_twice.py > docs/measured/same_kernel_twice.md   (about 4 minutes for 40 runs)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kernel_under_test import write_candidate
from measured_page import page_head

import profkit


def main() -> int:
    """Print a table of verdicts; exit 1 when more than 5 % claim a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of sampling per run")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    spec = profkit.Conv2d(batch=32, stride=2)
    verdicts: Counter[str] = Counter()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        candidates = [write_candidate(Path(name), candidate, 0.0) for candidate in ("first", "second")]
        for run in range(arguments.runs):
            result = profkit.measure(
                spec,
                only="candidate",
                baseline="candidate/cpu/first",
                candidates=candidates,
                threads=arguments.threads,
                budget_s=arguments.budget,
            )
            row = result.cells[0].row("conv2d/candidate/cpu/second")
            if row.ratio is None:
                raise SystemExit(f"run {run + 1}: not measured: {row.status} {row.reason}")
            verdicts[row.verdict] += 1
            lines.append(
                f"| {run + 1} | {row.ratio:.4f} | {row.ratio_low:.4f} | {row.ratio_high:.4f} | {row.verdict} |"
            )
            print(f"run {run + 1}: {lines[-1]}", file=sys.stderr)
    false_claims = verdicts["faster"] + verdicts["slower"]
    share = 100.0 * false_claims / arguments.runs
    print(page_head("One kernel under two names", f"python bench/same_kernel_twice.py --runs {arguments.runs}"))
    print(f"{spec.op} {spec.words()['batch']} images,")
    print(f"stride 2, {arguments.threads} thread(s), {arguments.budget:g} s of sampling per run, margin 2 %.\n")
    print(f"Verdicts: {', '.join(f'{word} {count}' for word, count in verdicts.most_common())}.")
    print(f"**A difference that is not there was claimed in {false_claims} of {arguments.runs} runs")
    print(f"({share:.1f} %; goal: at most 5 %).**\n")
    print("| run | ratio | low | high | verdict |\n|---|---|---|---|---|")
    print("\n".join(lines))
    return int(share > 5.0)


if __name__ == "__main__":
    raise SystemExit(main())
