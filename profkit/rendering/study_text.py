"""A study's summary for the terminal: the table of variants and frameworks, then the short answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TextIO

from profkit.rendering.document import Block, Bullets, Document
from profkit.rendering.study_answers import short_answers
from profkit.rendering.study_grids import missing_grid, summary_grid
from profkit.rendering.table import Item, Items
from profkit.studies.summary import Summary


def print_summary(summary: Summary, stream: TextIO) -> None:
    """Print what was measured, what was not and why, and what follows."""
    facts = [f"images: {summary.data}"] if summary.data else []
    blocks: list[Block] = [replace(summary_grid(summary, is_short=True), title=summary.study.title, facts=facts)]
    if absent := missing_grid(summary):
        rows = [line.texts for line in absent.lines]
        items = [
            Item(name, status, f"{reason} ({cells} {'cell' if cells == '1' else 'cells'})")
            for name, status, cells, _, reason in rows
        ]
        blocks.append(Items(items))
    Document(*blocks, Bullets(short_answers(summary))).print(stream)
