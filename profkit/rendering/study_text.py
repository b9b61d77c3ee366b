"""A study's summary for the terminal: the table of variants and frameworks, then the short answers."""

from __future__ import annotations

import textwrap
from typing import TextIO

from profkit.rendering.content import Heading, Line, Missing, Table
from profkit.rendering.study_report import summary_grid
from profkit.rendering.study_sentences import short_answers
from profkit.rendering.table import PLAIN_WIDTH, encodable, print_list, print_table
from profkit.studies.summary import Summary


def print_summary(summary: Summary, stream: TextIO) -> None:
    """Print what was measured, what was not and why, and what follows."""
    grid = summary_grid(summary)
    facts = (f"images: {summary.data}",) if summary.data else ()
    headings = tuple(Heading(text, text, place < grid.texts) for place, text in enumerate(grid.headings))
    lines = tuple(Line(tuple(row)) for row in grid.rows)
    print_table(Table(summary.study.title, facts, headings, lines), stream)
    if missing := missing_cells(summary):
        stream.write("\n")
        print_list(missing, stream)
    if not summary.frameworks():
        return
    stream.write("\n")
    for sentence in short_answers(summary):
        wrapped = textwrap.wrap(
            sentence, PLAIN_WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
        stream.write(encodable("\n".join(wrapped), stream) + "\n")


def missing_cells(summary: Summary) -> list[Missing]:
    """Failures, those of one framework and reason as one."""
    groups: dict[tuple[str, str, str], int] = {}
    for failure in summary.failures:
        name = failure.framework if failure.kind == "measure" else failure.kind
        key = (name, failure.status, failure.reason)
        groups[key] = groups.get(key, 0) + 1
    return [Missing(name, status, f"{reason} ({count} cells)") for (name, status, reason), count in groups.items()]
