"""A study's summary for the terminal: the table of variants and frameworks, then the short answers."""

from __future__ import annotations

import textwrap
from typing import TextIO

from profkit.rendering.content import Heading, Line, Missing, Table
from profkit.rendering.study_answers import short_answers
from profkit.rendering.study_grids import missing_grid, summary_grid
from profkit.rendering.table import encodable, print_list, print_table
from profkit.rendering.terminal import stream_width
from profkit.studies.summary import Summary


def print_summary(summary: Summary, stream: TextIO) -> None:
    """Print what was measured, what was not and why, and what follows."""
    grid = summary_grid(summary, is_short=True)
    facts = (f"images: {summary.data}",) if summary.data else ()
    headings = tuple(Heading(text, text, place < grid.texts) for place, text in enumerate(grid.headings))
    lines = tuple(Line(tuple(row)) for row in grid.rows)
    print_table(Table(summary.study.title, facts, headings, lines), stream)
    if absent := missing_grid(summary):
        stream.write("\n")
        items = [
            Missing(name, status, f"{reason} ({cells} {'cell' if cells == '1' else 'cells'})")
            for name, status, cells, _, reason in absent.rows
        ]
        print_list(items, stream)
    answers = short_answers(summary)
    stream.write("\n" if answers else "")
    for sentence in answers:
        texts = textwrap.wrap(
            sentence, stream_width(stream), initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
        stream.write(encodable("\n".join(texts), stream) + "\n")
