"""A kernel against itself slowed by a known 3, 10 and 50 %: do verdict and interval contain the truth?

Run: python bench/injected_delay.py > docs/measured/injected_delay.md   (about 4 minutes)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from kernel_under_test import write_candidate
from measured_page import page_head

import profkit

SHARES = (0.03, 0.10, 0.50)


def main() -> int:
    """Print one line per run; exit 1 when a verdict is wrong or fewer than 90 % of intervals hold the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="runs per delay")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of sampling per run")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    spec = profkit.Conv2d(batch=32, stride=2)
    lines = []
    counts = {share: {"covered": 0, "slower": 0, "false": 0} for share in SHARES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kernel = write_candidate(folder, "kernel", 0.0)
        delayed = [write_candidate(folder, f"delay{round(100 * share)}", share) for share in SHARES]
        for run in range(arguments.runs):
            result = profkit.measure(
                spec,
                only="candidate",
                baseline="candidate/cpu/kernel",
                candidates=[kernel, *delayed],
                threads=arguments.threads,
                budget_s=arguments.budget,
            )
            for share in SHARES:
                row = result.cells[0].row(f"conv2d/candidate/cpu/delay{round(100 * share)}")
                truth = 1.0 / (1.0 + share)
                if row.ratio is None or row.ratio_low is None or row.ratio_high is None:
                    raise SystemExit(f"run {run}: {row.key} was not measured: {row.status} {row.reason}")
                covered = row.ratio_low <= truth <= row.ratio_high
                counts[share]["covered"] += covered
                counts[share]["slower"] += row.verdict == "slower"
                counts[share]["false"] += row.verdict in ("faster", "same")
                lines.append(
                    f"| {run + 1} | {100 * share:.0f} % | {truth:.4f} | {row.ratio:.4f} | {row.ratio_low:.4f} "
                    f"| {row.ratio_high:.4f} | {'yes' if covered else 'no'} | {row.verdict} |"
                )
                print(lines[-1], file=sys.stderr)
    print(page_head("A kernel with an injected delay", f"python bench/injected_delay.py --runs {arguments.runs}"))
    print(f"{arguments.threads} thread(s), {arguments.budget:g} s of sampling per run, margin 2 %.")
    print("The delay is a share of each call's own time.\n")
    print("| delay | true ratio | intervals that hold it | verdict slower | verdict wrong (faster or same) |")
    print("|---|---|---|---|---|")
    for share, count in counts.items():
        print(
            f"| {100 * share:.0f} % | {1 / (1 + share):.4f} | {count['covered']} of {arguments.runs} "
            f"| {count['slower']} of {arguments.runs} | {count['false']} |"
        )
    print("\n| run | delay | truth | ratio | low | high | truth inside | verdict |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    held = sum(count["covered"] for count in counts.values())
    return int(held < 0.9 * len(lines) or any(count["false"] for count in counts.values()))


if __name__ == "__main__":
    raise SystemExit(main())
