"""`--explain`: what the policy would run of profkit's own kernels, why, and whether the measured rows agree."""

from __future__ import annotations

import textwrap
from typing import Any, TextIO

from profkit.errors import UnavailableError, UnsupportedError
from profkit.measurement.result import Cell, Result, Row
from profkit.measurement.statistics.estimates import verdict
from profkit.ops.keys import parts_of
from profkit.rendering.names import conditions_text, spec_text
from profkit.rendering.quantities import time_text
from profkit.rendering.terminal import PLAIN_WIDTH, say, stream_width

MARGIN = 0.02
NATIVE = "native"


def explain_cells(result: Result, tuned: bool) -> None:
    """Fill `policy` of every cell; `tuned` as it was measured."""
    for cell in result.cells:
        cell.policy = explained(cell, tuned)


def explained(cell: Cell, tuned: bool = True) -> dict[str, Any]:
    """The policy's choice for a cell beside its measured rows; `problem` where it has none."""
    from profkit.frameworks.native.costs import costs_origin
    from profkit.frameworks.native.policy import MODEL, choose_kernel

    native = [row for row in cell.rows if parts_of(row.key)[1:3] == (NATIVE, "cpu")]
    forms = {word for row in native for word in row.key.split("/")[4:]}
    try:
        choice = choose_kernel(cell.spec, cell.threads, forms, tuned)
    except (UnsupportedError, UnavailableError) as error:
        return {"problem": str(error)}
    found = {
        "key": choice.key,
        "source": choice.source,
        "reasons": list(choice.reasons),
        "estimates_ns": {item.key: item.ns for item in choice.estimates},
        "costs_from": costs_origin() if choice.source == MODEL else "",
    }
    return {**found, **_agreement(choice.key, cell, [row for row in native if row.median_ns is not None])}


def _agreement(key: str, cell: Cell, rows: list[Row]) -> dict[str, Any]:
    """How the row that was taken did beside the fastest that was measured."""
    own = next((row for row in rows if row.key == key), None)
    if own is None:
        return {"fastest_native": None, "measurement": f"{parts_of(key).variant} was not measured here"}
    fastest = min(rows, key=lambda row: row.median_ns or 0.0)
    if fastest is own:
        text = f"the measurement agrees: {parts_of(key).variant} is the fastest of {len(rows)} native rows"
        return {"fastest_native": key, "slower_by": 0.0, "measurement": text}
    ratio = None if cell.is_too_busy else cell.ratio(own, fastest)
    slower = (own.median_ns or 0.0) / (fastest.median_ns or 1.0)  # as the table has it
    doubt = " (not resolved)" if ratio is None or verdict(ratio, MARGIN) == "not resolved" else ""
    if ratio is not None and verdict(ratio, MARGIN) == "same":
        doubt = " (the same within 2 %)"
    text = (
        f"fastest native row measured: {parts_of(fastest.key).variant} ({time_text(fastest.median_ns)}); "
        f"the policy's {parts_of(key).variant} is {100 * (slower - 1):.0f} % slower{doubt}"
    )
    return {"fastest_native": fastest.key, "slower_by": slower - 1.0, "measurement": text}


def explanation_text(cell: Cell, width: int = PLAIN_WIDTH) -> str:
    head = f"policy for {spec_text(cell.spec)}, {conditions_text(cell)}"
    if "problem" in cell.policy:
        paragraphs = [f"{head}: none; {cell.policy['problem']}"]
    else:
        chosen = f"{head}: native/{parts_of(cell.policy['key']).variant} ({cell.policy['source']})"
        fitted = [f"costs fitted on {cell.policy['costs_from']}"] if cell.policy["costs_from"] else []
        lines = (*cell.policy["reasons"], *fitted, cell.policy["measurement"])
        paragraphs = [chosen, *(f"  {line}" for line in lines)]
    wrapped = (textwrap.wrap(text, width, subsequent_indent="      ", break_on_hyphens=False) for text in paragraphs)
    return "\n".join(line for lines in wrapped for line in lines)


def print_explanations(result: Result, stream: TextIO) -> None:
    for cell in filter(lambda cell: cell.policy, result.cells):
        say("\n" + explanation_text(cell, stream_width(stream)), stream)
