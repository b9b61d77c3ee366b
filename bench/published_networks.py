"""Every network at its published size in every framework: one step of inference, one of training, checked by float64.

As `profkit network` checks it, on a batch of 2: logits; loss, gradients, new weights and running statistics. A refusal
is a row with its reason. With `--results DIR` every row is kept at once, and a stopped program goes on there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured_page import page_head

from profkit.capture.output_files import write_atomically
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import NETWORKS
from profkit.rendering.quantities import error_text

BATCH = 2
TIMEOUT_S = 600.0


def checked(network: str, framework: str, is_training: bool, threads: int) -> dict[str, Any]:
    """One run's status and errors."""
    built = NETWORKS[network](batch=BATCH)
    run = run_network(
        NetworkRequest(
            built,
            framework,
            threads=threads,
            is_training=is_training,
            training=built.training,
            steps=1,
            passes=(),
            timeout_s=TIMEOUT_S,
        )
    )
    has_gradients = is_training and not any("gradients are not compared" in note for note in run.notes)
    return {
        "network": network,
        "framework": framework,
        "phase": "training" if is_training else "inference",
        "optimizer": built.training.optimizer if is_training else "",
        "status": run.status,
        "reason": run.reason,
        "error": run.error,
        "tolerance": run.tolerance,
        "gradients": has_gradients,
    }


def page(rows: Sequence[dict[str, Any]], command: str) -> str:
    """A table by network with a column per framework, and the reasons of what did not run."""
    frameworks = list(dict.fromkeys(row["framework"] for row in rows))
    lines = [page_head("Networks at their published size against float64", command)]
    lines.append(
        f"Error / tolerance of a step on a batch of {BATCH}: of the logits in inference; of loss, gradients, new "
        "weights and running statistics in training, whichever is worst. Right is a quotient of at most 1.\n"
    )
    lines.append(f"| network | step | {' | '.join(frameworks)} |\n|---|---|{'---|' * len(frameworks)}")
    reasons: dict[str, int] = {}
    for network in NETWORKS:
        for phase in ("inference", "training"):
            cells = []
            for framework in frameworks:
                found = [
                    row
                    for row in rows
                    if (row["network"], row["framework"], row["phase"]) == (network, framework, phase)
                ]
                cells.append(_cell(found[0], reasons) if found else "")
            lines.append(f"| {network} | {phase} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]
    return "\n".join(lines)


def _cell(row: dict[str, Any], reasons: dict[str, int]) -> str:
    if row["status"] == "ok":
        share = row["error"] / row["tolerance"]
        return error_text(share) + ("" if row["gradients"] or row["phase"] == "inference" else " (no gradients)")
    reason = f"{row['framework']}: {row['reason']}"
    return f"{row['status']} ({reasons.setdefault(reason, len(reasons) + 1)})"


def main(words: Sequence[str]) -> int:
    """Run what is missing, print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--framework", default="", help="some of them, as torch,jax [all that are installed]")
    parser.add_argument("--network", default="", help="some of them [all]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="only print the page")
    given = parser.parse_args(words)
    given.results.mkdir(parents=True, exist_ok=True)
    installed = [name for name in BUILDERS if load_builder(name).is_available().available]
    for network in () if given.render else filter(None, given.network.split(",")) if given.network else NETWORKS:
        for framework in given.framework.split(",") if given.framework else installed:
            for is_training in (False, True):
                path = given.results / f"{network}-{framework}-{'training' if is_training else 'inference'}.json"
                if path.exists():
                    continue
                row = checked(network, framework, is_training, given.threads)
                write_atomically(path, json.dumps(row))
                print(f"{path.stem}: {row['status']} {row['error']} {row['reason']}", file=sys.stderr, flush=True)
    rows = [json.loads(path.read_text()) for path in sorted(given.results.glob("*.json"))]
    print(page(rows, "python bench/published_networks.py --results DIR"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
