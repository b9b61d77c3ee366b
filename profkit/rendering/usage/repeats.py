"""The table of a run that was made twice from the same seed: which numbers came out the same, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from profkit.capture.run import Repeat, Run
from profkit.rendering.quantities import ABSENT, error_text, percent_text
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.rendering.usage.networks import network_title

_HEADINGS = ("numbers", "different", "largest difference", "of the largest")


def repeat_table(run: Run) -> Table:
    """A line for every layer that has parameters, and for the loss; without training one for the logits."""
    rows = run.repeats.get("rows", [])
    what = f"{run.repeats.get('steps')} training steps" if run.is_training else "one inference"
    same = sum(not row["different"] for row in rows)
    verdict = "everything is bit-equal" if same == len(rows) else f"{same} of {len(rows)} arrays are bit-equal"
    layers = groupby(rows, lambda row: row["name"].partition(".")[0])
    return Table(
        title=f"The same seed twice: {network_title(run)}",
        facts=(f"{what} in two processes from the same weights, data and seed: {verdict}",),
        columns=[
            TableColumn("layer", "layer", is_text=True),
            *(TableColumn(name, name) for name in _HEADINGS),
        ],
        lines=[_line(layer, list(group)) for layer, group in layers],
    )


def _line(layer: str, rows: Sequence[Repeat]) -> Line:
    count, different = sum(row["count"] for row in rows), sum(row["different"] for row in rows)
    if not different:
        return Line((layer, f"{count:,}", "bit-equal", ABSENT, ABSENT))
    # Arrays of a layer differ in size: each difference is measured by its own.
    known = [
        (row["largest"] / row["size"], row["largest"]) for row in rows if row["largest"] is not None and row["size"]
    ]
    share, largest = max(known) if known else (None, None)
    changed = percent_text(100 * different / max(1, count))
    return Line((layer, f"{count:,}", changed, error_text(largest), error_text(share)))
