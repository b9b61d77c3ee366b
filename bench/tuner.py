"""What the tuner's choices are worth: every kernel is tuned, then its choice meets the default again with new inputs.

Run: python bench/tuner.py   (about 15 minutes; choices are not kept)
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass, replace

from measured_page import page_head

from profkit.frameworks.native.tuned import tuning_text
from profkit.measurement.options import MeasureOptions
from profkit.measurement.result import Row
from profkit.measurement.selection import matches
from profkit.measurement.tuner.search import TuningOutcome, TuningTask, measure_again, tune_kernel
from profkit.measurement.tuner.tasks import find_tasks, tunable_kernels
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec
from profkit.rendering.quantities import time_text

# The defaults were made for the square and the large; a tuner must earn its time with the others.
SHAPES: dict[str, Spec] = {
    "matmul 1024 x 1024 x 1024": MatMul(1024, 1024, 1024),
    "matmul 64 x 4096 x 512": MatMul(64, 4096, 512),
    "matmul 2048 x 32 x 2048": MatMul(2048, 32, 2048),
    "matmul 200 x 200 x 200": MatMul(200, 200, 200),
    "conv 3x3, 64 channels, 56 x 56": Conv2d(8, 64, 56, 56, 64, (3, 3), (1, 1), (1, 1, 1, 1)),
    "conv 5x5, 64 channels, 16 x 16, stride 2": Conv2d(128, 64, 16, 16, 64, (5, 5), (2, 2), (2, 2, 2, 2)),
    "conv 1x1, 256 channels, 14 x 14": Conv2d(8, 256, 14, 14, 256, (1, 1)),
}


@dataclass(frozen=True)
class Worth:
    """One kernel on one shape; `again` is None where the default stayed."""

    shape: str
    outcome: TuningOutcome
    again: Row | None
    seconds: float

    @property
    def gain(self) -> float:
        """Default time / tuned time as the user gets it: what was not chosen gains and loses nothing."""
        return self.again.ratio if self.again is not None and self.again.ratio is not None else 1.0


def main() -> int:
    """Print a line per kernel and shape; exit 1 when a choice is slower than the default beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of sampling per kernel")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--shapes", default="", help="only shapes whose name contains this")
    parser.add_argument("--only", default="", help="only kernels that this names, as native/implicit_gemm")
    arguments = parser.parse_args()
    options = MeasureOptions(budget_s=arguments.budget)
    found = [worth(name, task, options) for name, task in tasks_of(arguments)]
    if not found:
        raise SystemExit(f"no kernel to tune is named so; the shapes are {', '.join(SHAPES)}")
    show(found, arguments)
    return int(any(item.again is not None and item.again.verdict == "slower" for item in found))


def tasks_of(arguments: argparse.Namespace) -> list[tuple[str, TuningTask]]:
    """Every kernel that has something to choose, for every shape."""
    return [
        (name, task)
        for name, spec in SHAPES.items()
        if arguments.shapes in name
        for task in find_tasks(tunable_kernels(spec.op, [], "cpu"), spec, arguments.threads)[0]
        if not arguments.only or matches(task.key, arguments.only)
    ]


def worth(shape: str, task: TuningTask, options: MeasureOptions) -> Worth:
    """Tune, then measure the choice again with other inputs."""
    print(f"{shape}: {task.key}", file=sys.stderr)
    begin = time.monotonic()
    outcome = tune_kernel(task, options, lambda *_: None)
    seconds = time.monotonic() - begin
    anew = replace(options, seed=options.seed + 1)
    again = measure_again(task, outcome.chosen, anew, lambda *_: None) if outcome.chosen else None
    return Worth(shape, outcome, again, seconds)


def show(found: list[Worth], arguments: argparse.Namespace) -> None:
    """The page."""
    print(page_head("What the tuner's choices are worth", "python bench/tuner.py"))
    print(f"{arguments.threads} threads, {arguments.budget:g} s of sampling per kernel.")
    print("Gain = default time / tuned time: `tuner` as it was found, `again` in new")
    print("processes with other inputs, which is what counts. Where the default stays nothing is gained or lost.\n")
    print("| shape | kernel | default | chosen | tuner | again | interval | tuned in |")
    print("|---|---|---|---|---|---|---|---|")
    for item in found:
        print(line(item))
    chosen = [item for item in found if item.outcome.chosen]
    mean = math.exp(sum(math.log(item.gain) for item in found) / len(found))
    slower = sum(item.again is not None and item.again.verdict == "slower" for item in chosen)
    print(f"\nOther sizes were chosen for {len(chosen)} of {len(found)} kernels, {slower} of these are slower again.")
    print(f"Geometric mean of the gains over all: {mean:.3f}, least {min(item.gain for item in found):.3f}.")


def line(item: Worth) -> str:
    """One row of the table."""
    task, outcome = item.outcome.task, item.outcome
    default, chosen = outcome.row_of({}), outcome.row_of(outcome.chosen)
    cells = [
        item.shape,
        task.key.rpartition("/")[2],
        time_text(default.median_ns) if default else "-",
        tuning_text(outcome.chosen) or "default",
        ratio_text(chosen) if outcome.chosen else "-",
        ratio_text(item.again),
        interval_text(item.again),
        f"{item.seconds:.0f} s",
    ]
    return f"| {' | '.join(cells)} |"


def ratio_text(row: Row | None) -> str:
    """Two digits, or the row's status where it has no ratio."""
    if row is None:
        return "-"
    return f"{row.ratio:.2f}" if row.ratio is not None else row.status


def interval_text(row: Row | None) -> str:
    """Both ends of the ratio's interval, and the verdict."""
    if row is None or row.ratio_low is None or row.ratio_high is None:
        return "-"
    return f"{row.ratio_low:.2f} to {row.ratio_high:.2f}, {row.verdict}"


if __name__ == "__main__":
    raise SystemExit(main())
