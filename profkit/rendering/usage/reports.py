"""The report of whatever was opened: a capture or a run in; its tables, with what stands around them, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.attribution.account import DEVICES, STEPS, THREADS, clocks_of
from profkit.attribution.gaps import GapTable, layer_gaps
from profkit.attribution.metrics import TIME_PASS
from profkit.attribution.passes import usage_of
from profkit.attribution.tables import mean_of_steps
from profkit.attribution.usage import Usage
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.rendering.tables.table import Table
from profkit.rendering.usage.content import View, build_table, step_surroundings, surroundings
from profkit.rendering.usage.devices import device_surroundings
from profkit.rendering.usage.gaps import EXPLAINED, gap_table
from profkit.rendering.usage.networks import failure_lines, network_surroundings, network_title, run_lines

_AROUND = {THREADS: surroundings, STEPS: step_surroundings, DEVICES: device_surroundings}


@dataclass(frozen=True)
class Report:
    """Tables of usage, each with its surroundings, and a run's distance from the baseline."""

    opened: Capture | Run
    usages: Sequence[tuple[Table, Usage]]
    gaps: GapTable | None = None

    def tables(self, view: View, explained: float = EXPLAINED) -> list[Table]:
        """As they are printed: those of steps show one step."""
        tables = [build_table(mean_of_steps(usage), view, around) for around, usage in self.usages]
        return [*tables, *([gap_table(self.gaps, explained)] if self.gaps else [])]


def report_of(opened: Capture | Run, by: str | None = None, **choice: Any) -> Report:
    """The table by one of its groupings; without one, a program that used a GPU or ran steps has tables of them, too.

    `choice` are the further arguments of usage_of. A run that recorded nothing has no tables.
    """
    if isinstance(opened, Run):
        if opened.capture(TIME_PASS) is None:
            return Report(opened, [])
        usage = usage_of(opened, by, **choice)
        gaps = layer_gaps(opened) if opened.baseline else None
        return Report(opened, [(network_surroundings(opened, usage), usage)], gaps)
    usage = usage_of(opened, by, **choice)
    usages = [(_AROUND[usage.clock](opened, usage), usage)]
    for clock in clocks_of(opened)[1:] if by is None and choice.get("clock") is None else ():
        if clock == STEPS or (clock == DEVICES and len(opened.activities)):
            more = usage_of(opened, clock=clock)
            # What was lost and what was damaged is told above the first.
            usages.append((replace(_AROUND[clock](opened, more), losses=[], warnings=[]), more))
    return Report(opened, usages)


def without_table(run: Run) -> Table:
    """A run that ended before anything was recorded: what is known of it."""
    facts = run_lines(run) if run.step_ns or run.error is not None else ["nothing was measured"]
    return Table(network_title(run), facts, losses=failure_lines(run) or ["nothing was recorded"])
