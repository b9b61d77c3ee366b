"""Recording in a test: a function runs under profkit.record, and its ranges come back as plain rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import profkit
from profkit.capture.reading import read
from profkit.capture.schema import NONE, Capture, RangeKind
from tests.capture.tables import payload_values


@dataclass(frozen=True)
class Seen:
    """One row of a capture's ranges, with names instead of numbers."""

    name: str
    kind: RangeKind
    parent: str | None
    depth: int
    thread: int
    end_thread: int
    start_ns: int
    end_ns: int
    payload: int | float | None
    category: str | None
    is_open: bool

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def rows_of(capture: Capture) -> list[Seen]:
    """All ranges, spans and marks, in order of begin per thread."""
    ranges, strings = capture.ranges, capture.strings
    payloads = payload_values(ranges)
    return [
        Seen(
            name=capture.range_title(row),
            kind=RangeKind(ranges.kind[row]),
            parent=None if ranges.parent[row] == NONE else capture.range_title(int(ranges.parent[row])),
            depth=int(ranges.depth[row]),
            thread=int(ranges.thread[row]),
            end_thread=int(ranges.end_thread[row]),
            start_ns=int(ranges.start_ns[row]),
            end_ns=int(ranges.end_ns[row]),
            payload=payloads[row],
            category=None if ranges.category[row] == NONE else strings[ranges.category[row]],
            is_open=bool(ranges.is_open[row]),
        )
        for row in range(len(ranges))
    ]


def record_rows(folder: Path, action: Callable[[], Any]) -> list[Seen]:
    """What `action` records in this process."""
    path = folder / "run.profkit"
    with profkit.record(path):
        action()
    return rows_of(read(path))
