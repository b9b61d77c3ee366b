"""Runs of profkit's commands, each kept as a JSON result in a folder, and goals that are judged over them.

A result is there whole or not at all: a program that was killed goes on with the first that is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measured_page import Origin, origin, page_head

from profkit.capture.output_files import write_atomically
from profkit.frameworks import CANDIDATE
from profkit.measurement.result import Cell, Result, read_result

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Goal:
    """What was to be shown, and what was found."""

    text: str
    found: str
    is_met: bool


class KeptRuns:
    """A folder of results, all of one commit and machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def begin(self, is_quick: bool) -> None:
        """Before the first run: note where the results come from, or refuse to go on with others'."""
        now = {**origin(), "form": "quick" if is_quick else "full"}
        if not self._about_path.exists():
            write_atomically(self._about_path, json.dumps(now))
        kept = self._about()
        if {**kept, "date": ""} != {**now, "date": ""}:
            what = f"{kept['form']} results of commit {kept['commit']} on {kept['machine']}"
            raise SystemExit(f"{self.folder} has {what}: name another folder")

    @property
    def is_quick(self) -> bool:
        """Whether they are of the quick form."""
        return self._about()["form"] == "quick"

    def _about(self) -> dict[str, str]:
        about: dict[str, str] = json.loads(self._about_path.read_text(encoding="utf-8"))
        return about

    @property
    def _about_path(self) -> Path:
        # No .json: the folder's results are read by that ending.
        return self.folder / "about"

    def run(self, name: str, op: str, words: Sequence[str]) -> None:
        """Run `profkit OP WORDS` in a process of its own, unless its result is there."""
        path = self._path_of(name)
        if path.exists():
            return
        print(f"{name}: profkit {op} {' '.join(words)}", file=sys.stderr)
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)  # of a run that was killed
        command = [sys.executable, "-m", f"profkit.{op}", *words, "--json", str(part)]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, preexec_fn=end_with_parent
        )
        if not part.exists() or read_result(part).interrupted:
            raise SystemExit(f"{name}: no result, exit code {done.returncode}\n{done.stderr.decode()[-2000:]}")
        os.replace(part, path)

    def run_until_judged(self, prefix: str, wanted: int, op: str, words: Sequence[str]) -> None:
        """Run until the machine was quiet enough to judge so many runs, with half as many more at most.

        What the judged ones found plays no part in it.
        """
        judged = 0
        for number in range(wanted + wanted // 2):
            if judged == wanted:
                return
            name = f"{prefix}{number:03}"
            self.run(name, op, words)
            judged += not any(cell.is_too_busy for cell in read_result(self._path_of(name)).cells)

    def results(self, prefix: str) -> dict[str, Result]:
        """What is there, by name."""
        return {path.stem: read_result(path) for path in sorted(self.folder.glob(f"{prefix}*.json"))}

    def _path_of(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def head(self, title: str, command: str) -> str:
        """Of the page."""
        about = self._about()
        measured: Origin = {"date": about["date"], "commit": about["commit"], "machine": about["machine"]}
        if self.is_quick:
            return page_head(title, f"{command} --quick", measured) + "\nThe quick form: its numbers do not count.\n"
        return page_head(title, command, measured)


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def options(text: str, sections: Sequence[str]) -> argparse.ArgumentParser:
    """The flags that these programs share."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, metavar="DIR", help="folder of the results [a new one]")
    parser.add_argument("--render", action="store_true", help="measure nothing: print the page of --results")
    parser.add_argument("--quick", action="store_true", help="under a minute: does it work? Its numbers do not count")
    if len(sections) > 1:
        parser.add_argument("--section", choices=sections, help="measure only this one [all]")
    return parser


def open_runs(arguments: argparse.Namespace) -> KeptRuns:
    """The folder that was asked for, or a new one."""
    if arguments.render and not (arguments.results and arguments.results.is_dir()):
        raise SystemExit("--render needs the folder of an earlier run: --results DIR")
    folder = arguments.results or Path(tempfile.mkdtemp(prefix="profkit-runs-"))
    runs = KeptRuns(folder)
    if not arguments.render:
        runs.begin(arguments.quick)
        print(f"results in {folder}", file=sys.stderr)
    return runs


@dataclass(frozen=True)
class Ratio:
    """A row's, with the interval that the table shows."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether it lies in the interval."""
        return self.low <= value <= self.high


def judged_ratio(cell: Cell, key: str) -> Ratio | None:
    """Of a row; None when the machine was too busy to judge it, or the row failed."""
    row = cell.row(key)
    if row.status != "ok" or cell.is_too_busy or row.ratio is None or row.ratio_low is None or row.ratio_high is None:
        return None
    return Ratio(row.ratio, row.ratio_low, row.ratio_high)


def none_accused(results: Mapping[str, Result]) -> Goal:
    """The kernels of these programs are honest: a candidate that is refused or doubted counts against profkit."""
    rows = [
        (name, row)
        for name, result in results.items()
        for cell in result.cells
        for row in cell.rows
        if row.key.split("/")[1] == CANDIDATE
    ]
    accused = [
        f"{name}: {row.key} {'; '.join([f'{row.status} {row.reason}'.strip(), *row.doubts])}"
        for name, row in rows
        if row.status != "ok" or row.doubts
    ]
    return Goal("no kernel is refused or doubted", "; ".join(accused) or f"0 of {len(rows)} rows", not accused)


def too_busy_line(names: Collection[str]) -> str:
    """How many runs do not count."""
    return f"Too busy to judge, in all or some of their rows, which do not count: {len(names)} runs."


def goal_table(goals: Sequence[Goal]) -> str:
    """Met or missed, line by line."""
    lines = [f"| {goal.text} | {goal.found} | {'met' if goal.is_met else '**missed**'} |" for goal in goals]
    return "\n".join(["| goal | found | |", "|---|---|---|", *lines])


def share(part: int, whole: int) -> str:
    """As both numbers and a share."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"
