"""Does `profkit max-batch` predict the memory that is measured? Built-in networks, in torch, at the predicted batch.

Run: python bench/max_batch.py --results DIR, then --results DIR --render > docs/measured/max_batch.md. About an hour on
two cores; it goes on where it was ended. `--only NAME,NAME` measures these networks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from measured_page import Origin, origin, page_head

from profkit.measurement.largest_batch.fit import largest_below
from profkit.measurement.largest_batch.request import PLAIN, PREDICTED, SMALL, MaxBatch, MaxBatchRequest
from profkit.measurement.largest_batch.search import memory_by_formula, search
from profkit.measurement.largest_batch.trial import Outcome, heap_of, run_trial
from profkit.ops.networks import NETWORKS
from profkit.rendering.quantities import ABSENT, bytes_text
from profkit.rendering.results.max_batch import record_of

COMMAND = "python bench/max_batch.py --results DIR"
ALLOCATOR_GOAL, GROWTH_GOAL = 0.05, 0.10
LEAST_BYTES, PER_MODEL = 1 << 30, 3
"""The limit: a GiB, and three times what the network needs at batch 1: larger ones need longer, and tell the same."""
RESERVE_BYTES = 1 << 30
"""Of the machine, which is left to others."""


class Enough(Exception):  # noqa: N818 - no error: what follows is not needed
    """The batch that was predicted has run."""


def measure(name: str, is_training: bool, has_plain: bool, folder: Path, measured: Origin) -> None:
    """One network's file."""
    network = NETWORKS[name]()
    training = network.training
    request = MaxBatchRequest(network, "torch", threads=2, is_training=is_training, training=training)
    needs = memory_by_formula(request)
    limit = LEAST_BYTES + PER_MODEL * needs(1).total
    fields = network.to_dict(), "torch", "eager", 2, is_training, training.field_values(), limit, "", 0.0, request.steps
    found = MaxBatch(*fields, heap_of(request))

    def run(batch: int, role: str) -> Outcome:
        if role not in (SMALL, PREDICTED):
            raise Enough
        print(f"{name}: batch {batch} ({role})", file=sys.stderr, flush=True)
        return run_trial(request, batch, role, limit, RESERVE_BYTES)

    with contextlib.suppress(Enough):
        search(found, run, largest_below(lambda batch: needs(batch).total, limit))
    if has_plain and found.largest is not None:
        found.add(run_trial(request, found.largest, PLAIN, limit, RESERVE_BYTES).trial)
    kept = {
        "origin": measured,
        "network": name,
        "is_training": is_training,
        "optimizer": training.optimizer,
        "limit_bytes": limit,
        "status": found.status,
        "reason": found.reason,
        "predicted": found.predicted,
        "pieces": len(found.fit.allocator.pieces) if found.fit and found.fit.allocator else 0,
        "trials": [record_of(found, trial) for trial in found.trials],
    }
    (folder / f"{name}.{_way(is_training)}.json").write_text(json.dumps(kept, indent=1))


def _way(is_training: bool) -> str:
    return "training" if is_training else "inference"


def page(folder: Path) -> str:
    """The page, from the files that there are."""
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    lines = [page_head("Predicted memory of max-batch", COMMAND, kept[0]["origin"])]
    commits = sorted({each["origin"]["commit"] for each in kept[1:]} - {kept[0]["origin"]["commit"]})
    lines += [f"Some rows were measured at commit {', '.join(commits)}.\n"] if commits else []
    lines.append(
        f"Networks in torch on 2 threads, as published, each under a limit of 1 GiB and {PER_MODEL} times what the "
        "formulas say for batch 1. Three smaller batches are measured; the table is about the batch that they predict, "
        f"in a process of its own. Goals: allocator within {ALLOCATOR_GOAL:.0%}, growth of the resident memory over "
        f"the worker before the model within {GROWTH_GOAL:.0%}. Errors are predicted / measured - 1. plain: resident "
        "without the variable that makes the heap steady, over resident with it, where that was measured.\n"
    )
    lines.append(
        "| network | limit | small batches | predicted batch "
        "| allocator | error | growth | error | plain | breakpoints |"
    )
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    rows = [_row(each) for each in kept]
    lines += [row for row, _ in rows]
    losses = [loss for _, loss in rows if loss]
    missing = [name for name in NETWORKS if not any(each["network"] == name for each in kept)]
    lines.append(f"\nOutside of a goal: {'; '.join(losses) or 'none'}.")
    lines.append(f"Networks that were not measured: {', '.join(missing) or 'none'}.")
    return "\n".join(lines)


def _row(kept: dict[str, Any]) -> tuple[str, str]:
    """The line, and what misses a goal."""
    name = f"{kept['network']} ({_way(kept['is_training'])}{', ' + kept['optimizer'] if kept['is_training'] else ''})"
    trials = {trial["role"]: trial for trial in kept["trials"] if trial["status"] == "ok"}
    found = trials.get(PREDICTED)
    small = ", ".join(f"{trial['batch']:,}" for trial in kept["trials"] if trial["role"] == "small")
    if found is None:
        ended = next((trial for trial in kept["trials"] if trial["role"] == PREDICTED), {"status": kept["status"]})
        reason = ended.get("reason") or kept["reason"]
        row = f"| {name} | {bytes_text(kept['limit_bytes'])} | {small} | {kept['predicted']} | | | | | | {reason} |"
        return row, f"{name}: {ended['status']} at the predicted batch"
    share = ABSENT
    for plain in (each for each in kept["trials"] if each["role"] == PLAIN and each["batch"] == found["batch"]):
        is_ok = plain["status"] == "ok"
        share = f"{plain['resident_bytes'] / found['resident_bytes']:.2f}" if is_ok else "above the limit"
    row = (
        f"| {name} | {bytes_text(kept['limit_bytes'])} | {small} | {found['batch']:,} "
        f"| {bytes_text(found['allocator_bytes'])} | {found['allocator_error']:+.1%} "
        f"| {bytes_text(found['growth_bytes'])} | {found['growth_error']:+.1%} | {share} | {kept['pieces'] - 1} |"
    )
    wrong = [
        f"{name}: {what} {found[f'{what}_error']:+.1%}"
        for what, goal in (("allocator", ALLOCATOR_GOAL), ("growth", GROWTH_GOAL))
        if abs(found[f"{what}_error"]) > goal
    ]
    return row, ", ".join(wrong)


def main() -> int:
    """Measure what has no file yet, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--inference", action="store_true", help="instead of training")
    parser.add_argument("--plain", action="store_true", help="the predicted batch once more, with the heap as it is")
    arguments = parser.parse_args()
    if arguments.render:
        print(page(arguments.results))
        return 0
    arguments.results.mkdir(parents=True, exist_ok=True)
    measured = origin()
    for name in arguments.only.split(","):
        if not (arguments.results / f"{name}.{_way(not arguments.inference)}.json").exists():
            measure(name, not arguments.inference, arguments.plain, arguments.results, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
