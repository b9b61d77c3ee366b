"""Every network at its published size in every framework: one step of inference, one of training, checked by float64.

As `profkit network` checks it, on a batch of 2: logits; loss, gradients, new weights and running statistics. A refusal
is a row with its reason. The small networks come first. A network has a process of its own, which computes what
float64 gives of it once for all frameworks, and each of its cells another one, with a time limit. Every row is kept at
once: a program that was stopped goes on there, and a cell that ended its network's process is a row, too.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kept_runs import end_with_parent
from measured_page import origin, page_head

from profkit.capture.output_files import write_atomically
from profkit.errors import listed
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import NETWORKS, Network

BATCH = 2
TIMEOUT_S = 600.0
KERAS = "keras:tensorflow,keras:torch,keras:jax"
INFERENCE, TRAINING = "inference", "training"


def checked(network: Network, framework: str, phase: str, threads: int) -> dict[str, Any]:
    """One run's status and errors; `framework` may name a mode."""
    name, _, mode = framework.partition(":")
    begin = time.monotonic()
    run = run_network(
        NetworkRequest(
            network,
            name,
            mode,
            threads=threads,
            is_training=phase == TRAINING,
            training=network.training,
            steps=1,
            passes=(),
            timeout_s=TIMEOUT_S,
        )
    )
    return {
        "network": network.name,
        "framework": framework,
        "phase": phase,
        "optimizer": network.training.optimizer if phase == TRAINING else "",
        "status": run.status,
        "reason": run.reason,
        "error": run.error,
        "tolerance": run.tolerance,
        "unchecked": run.unchecked,
        "gradients": not any("gradients are not compared" in note for note in run.notes),
        "ties": any("near a tie" in note for note in run.notes),
        "seconds": time.monotonic() - begin,
        "commit": origin()["commit"],
    }


class Rows:
    """A folder with a file per row, and one with the name of the cell that is running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def missing(self, network: str, frameworks: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Cells that have no row: all inference first, so that the gradients of float64 are held once."""
        for phase in (INFERENCE, TRAINING):
            for framework in frameworks:
                if not self._path(network, framework, phase).exists():
                    yield framework, phase

    def begin(self, network: str, framework: str, phase: str) -> None:
        self._running(network).write_text(json.dumps([framework, phase]))

    def keep(self, row: dict[str, Any]) -> None:
        path = self._path(row["network"], row["framework"], row["phase"])
        write_atomically(path, json.dumps(row))
        self._running(row["network"]).unlink(missing_ok=True)
        words = f"{path.stem}: {row['status']} {row['error']} {row['reason']} ({row['seconds']:.0f} s)"
        print(words, file=sys.stderr, flush=True)

    def keep_killed(self, network: str, code: int) -> bool:
        """The row of the cell in which the network's process ended; False: it ended in none."""
        running = self._running(network)
        if not running.exists():
            return False
        framework, phase = json.loads(running.read_text())
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        row = {"network": network, "framework": framework, "phase": phase, "optimizer": "", "status": "crashed"}
        row |= {"reason": f"the process that checks it ended by {how}", "error": None, "tolerance": None}
        self.keep(
            row | {"unchecked": [], "gradients": True, "ties": False, "seconds": 0.0, "commit": origin()["commit"]}
        )
        return True

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self._folder.glob("*.json"))]

    def _path(self, network: str, framework: str, phase: str) -> Path:
        return self._folder / f"{network}-{framework.replace(':', '_')}-{phase}.json"

    def _running(self, network: str) -> Path:
        return self._folder / f"{network}.running"


def run_cells(rows: Rows, network: str, frameworks: Sequence[str], threads: int) -> None:
    """What is missing of one network, in this process and those of the frameworks."""
    built = NETWORKS[network](batch=BATCH)
    for framework, phase in rows.missing(network, frameworks):
        rows.begin(network, framework, phase)
        rows.keep(checked(built, framework, phase, threads))


def run_network_process(rows: Rows, network: str, words: Sequence[str], frameworks: Sequence[str]) -> None:
    """Until every cell of the network has a row."""
    command = [sys.executable, __file__, *words, "--cells-of", network]
    while any(rows.missing(network, frameworks)):
        code = subprocess.run(command, check=False, preexec_fn=end_with_parent).returncode
        if code and not rows.keep_killed(network, code):
            raise SystemExit(f"{network}: its process ended with {code} before its first cell")


def by_size(names: Sequence[str]) -> list[str]:
    """The networks, those with the least work first."""

    def size(name: str) -> int:
        network = NETWORKS[name](batch=BATCH)
        return BATCH * network.multiply_adds() + 10 * network.parameter_count()

    return sorted(names, key=size)


def page(rows: Sequence[dict[str, Any]], command: str) -> str:
    """A table by network with a column per framework, and the reasons of what did not run."""
    order = [f"{name}:{mode}" for name in BUILDERS for mode in load_builder(name).modes]
    found = {row["framework"] for row in rows}
    frameworks = [each for each in (*BUILDERS, *order) if each in found]
    frameworks.sort(key=lambda each: list(BUILDERS).index(each.partition(":")[0]))
    by_cell = {(row["network"], row["phase"], row["framework"]): row for row in rows}
    lines = [page_head("Networks at their published size against float64", command)]
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    counts = [f"{sum(row['status'] == status for row in rows)} {status}" for status in _statuses(rows)]
    missing = 2 * len(NETWORKS) * len(frameworks) - len(rows)
    lines.append(
        f"Error / tolerance of a step on a batch of {BATCH}: of the logits in inference; in training of the loss, "
        "every gradient, every new weight and every running statistic, each by a tolerance of its own, and the worst "
        "of them is shown. Right is a quotient of at most 1. t: a ReLU or a maximum is near a tie, and some tolerances "
        "follow from what rounding moves in float64; u: so many parameters are not checked, because rounding moves "
        f"them as far as a wrong gradient would. {len(rows)} rows ({', '.join(counts)}) took "
        f"{sum(row['seconds'] for row in rows) / 60:.0f} minutes, of commits {', '.join(commits)}"
        + (f"; {missing} cells are empty: they have not run yet.\n" if missing else ".\n")
    )
    lines.append(
        f"| network | parameters | step | {' | '.join(frameworks)} |\n|---|---:|---|{'---|' * len(frameworks)}"
    )
    reasons: dict[str, int] = {}
    for network in by_size(list(NETWORKS)):
        parameters = f"{NETWORKS[network](batch=BATCH).parameter_count():,}"
        for phase in (INFERENCE, TRAINING):
            cells = [by_cell.get((network, phase, framework)) for framework in frameworks]
            if any(cells):
                shown = [_cell(each, reasons) if each else "" for each in cells]
                lines.append(f"| {network} | {parameters} | {phase} | {' | '.join(shown)} |")
    lines += ["", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]
    return "\n".join(lines)


def _statuses(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({row["status"] for row in rows}, key=lambda status: (status != "ok", status))


def _cell(row: dict[str, Any], reasons: dict[str, int]) -> str:
    def numbered(reason: str) -> str:
        return str(reasons.setdefault(f"{row['framework']}: {reason}", len(reasons) + 1))

    if row["status"] != "ok":
        return f"{row['status']} ({numbered(row['reason'])})"
    marks = " t" * row["ties"]
    if row["unchecked"]:
        reason = f"{row['network']}: not checked: {listed(row['unchecked'])}"
        marks += f" {len(row['unchecked'])}u ({numbered(reason)})"
    if row["phase"] == TRAINING and not row["gradients"]:
        marks += f" ({numbered('its gradients cannot be read; its new weights are compared')})"
    return f"{row['error'] / row['tolerance']:.2g}{marks}"


def main(words: Sequence[str]) -> int:
    """Run what is missing, print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--framework", default="", help="some of them, as torch,keras:jax [all that are installed]")
    parser.add_argument("--network", default="", help="some of them [all]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="only print the page")
    parser.add_argument("--cells-of", default="", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    rows = Rows(given.results)
    installed = [name for name in BUILDERS if load_builder(name).is_available().available]
    chosen = given.framework or ",".join(KERAS if name == "keras" else name for name in installed)
    frameworks = chosen.split(",")
    if given.cells_of:
        run_cells(rows, given.cells_of, frameworks, given.threads)
        return 0
    for network in () if given.render else by_size(given.network.split(",") if given.network else list(NETWORKS)):
        run_network_process(rows, network, words, frameworks)
    print(page(rows.all(), "python bench/published_networks.py --results DIR"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
