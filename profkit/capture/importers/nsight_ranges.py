"""NVTX ranges of an Nsight Systems export: its table in, ranges of a Capture out."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from profkit.capture.importers.nsight_database import NsightDatabase
from profkit.capture.importers.range_levels import level_of_annotation, level_of_operator
from profkit.capture.nesting import parents_of, time_order
from profkit.capture.schema import NONE, Column, Level
from profkit.capture.trace_tables import LARGEST, Strings

_RANGE_TYPES = (59, 60, 70, 71)  # push and pop, start and end, and the same of text files
_DOMAIN_TYPE = 75
_WANTED = {
    "start_ns": "start", "end_ns": "end", "thread": "globalTid", "end_thread": "endGlobalTid", "text": "textId",
    "domain": "domainId",
}  # fmt: skip
# torch.autograd.profiler.emit_nvtx: `aten::conv2d, seq = 7, op_id = 12, sizes = [[1, 3]], input_op_ids = ...`
_TORCH = re.compile(
    r"^(?P<name>.*?)(?:, seq = (?P<seq>\d+))?, op_id = \d+(?:, sizes = (?P<sizes>\[.*?\])(?=, \w+ =|$))?"
)
_TORCH_SEQUENCE = re.compile(r"^(?P<name>.*?), seq = (?P<seq>\d+)(?:, sizes = (?P<sizes>\[.*?\])(?=, \w+ =|$))?")


def read_ranges(
    database: NsightDatabase, strings: Strings, threads_of: Callable[[Column], Column], last_ns: int
) -> dict[str, Column]:
    """Ranges of one thread each; one without an end lasts until `last_ns` or the last range's end.

    Ranges that one thread begins and another ends belong to no thread: they are counted, and are in no table.
    """
    table, texts, domains = _read(database)
    crossing = (table["end_thread"] != NONE) & (table["end_thread"] != table["thread"])
    if crossing.any():
        database.warnings.append(
            f"{np.count_nonzero(crossing):,} NVTX ranges end on another thread than they began on: no kernel is theirs"
        )
        keep = ~crossing
        table = {name: column[keep] for name, column in table.items()}
        texts = [text for text, kept in zip(texts, keep.tolist()) if kept]
    open_ends = table["end_ns"] == NONE
    if open_ends.any():
        known = [last_ns, int(table["start_ns"].max()), int(table["end_ns"].max())]
        table["end_ns"] = np.where(open_ends, max(known), table["end_ns"])
        database.warnings.append(
            f"{np.count_nonzero(open_ends):,} NVTX ranges have no end: they last to the last event"
        )
    return _named(table, texts, domains, strings, threads_of)


def _read(database: NsightDatabase) -> tuple[dict[str, Column], list[str], dict[int, str]]:
    """Ranges, the text of each, and the names of domains."""
    if not database.has("NVTX_EVENTS", "start") or not database.has("NVTX_EVENTS", "eventType"):
        return {name: np.zeros(0, np.int64) for name in _WANTED}, [], {}
    texts, rows, lost, domains = [], [], 0, {}
    wanted = ("start", "end", "globalTid", "endGlobalTid", "textId", "domainId", "eventType", "text")
    for start, last, thread, end_thread, text_id, domain, kind, text in database.rows("NVTX_EVENTS", *wanted):
        if kind == _DOMAIN_TYPE:
            domains[domain] = str(text) if text is not None else database.strings.get(text_id, "")
        if kind not in _RANGE_TYPES:
            continue
        end = NONE if last is None else last
        numbers = (start, end, thread)
        if not all(type(number) is int and abs(number) <= LARGEST for number in numbers) or NONE < end < start:
            lost += 1
            continue
        others = (each if type(each) is int else NONE for each in (end_thread, text_id, domain))
        rows.append((start, end, thread, *others))
        texts.append(str(text) if text is not None else database.strings.get(text_id, ""))
    if lost:
        database.warnings.append(
            f"{lost:,} NVTX ranges are left out: without a time or a thread, or with an end too early"
        )
    found = np.array(rows, np.int64).reshape(len(rows), len(_WANTED))
    return {name: found[:, number] for number, name in enumerate(_WANTED)}, texts, domains


def _named(
    table: dict[str, Column],
    texts: list[str],
    domains: dict[int, str],
    strings: Strings,
    threads_of: Callable[[Column], Column],
) -> dict[str, Column]:
    rows = []
    # Each text once: a long one of the table of strings may be that of all rows.
    matches = {text: _TORCH.match(text) or _TORCH_SEQUENCE.match(text) for text in dict.fromkeys(texts)}
    for text, domain in zip(texts, table["domain"].tolist()):
        match = matches[text]
        owner = None if match else domains.get(domain)
        if match:
            name, sizes, sequence = match["name"], match["sizes"], match["seq"]
            level = level_of_operator(name)
        else:
            name, sizes, sequence = text, None, None
            level = level_of_annotation(name if owner is None else f"{owner}:{name}")
        row = (
            level,
            strings.number(name),
            NONE if owner is None else strings.number(owner),
            strings.number(sizes) if sizes else NONE,
            int(sequence) if sequence and len(sequence) < 19 else NONE,
        )
        rows.append(row)
    columns = np.array(rows, np.int64).reshape(len(rows), 5).T
    times = {name: table[name] for name in ("start_ns", "end_ns")}
    ranges = dict(zip(("level", "name", "domain", "shapes", "sequence"), columns))
    return _with_leaves({**ranges, **times, "thread": threads_of(table["thread"])})


def _with_leaves(ranges: dict[str, Column]) -> dict[str, Column]:
    """A user's range is a layer when it holds others; a name that never does is that of an operator."""
    order = time_order(ranges["start_ns"], ranges["end_ns"])
    ranges = {name: column[order] for name, column in ranges.items()}
    parents = parents_of(ranges["thread"], ranges["start_ns"], ranges["end_ns"])
    titles = ranges["domain"] * (ranges["name"].max(initial=0) + 1) + ranges["name"]
    leaf = (ranges["level"] == Level.LAYER) & ~np.isin(titles, titles[parents[parents != NONE]])
    ranges["level"] = np.where(leaf, Level.OPERATOR, ranges["level"])
    return ranges
