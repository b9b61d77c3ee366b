"""Which row of a table each range belongs to: by name, path, thread, category or domain. A capture in, groups out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from profkit.attribution.tree import Tree
from profkit.capture.schema import NONE, Capture, Column

PATH_SEPARATOR = " > "
"""For people; titles may contain it, so rows carry their titles one by one as well."""
NO_CATEGORY = "(no category)"
NO_DOMAIN = "(no domain)"
# Up to so many times the number of rows, a table of all possible keys beats sorting.
_DENSE_KEYS = 8


@dataclass(frozen=True)
class RangeGroups:
    """A group per row of ranges (-1 for those left out), and the groups' names."""

    of_row: Column  # int32
    names: Sequence[str]
    paths: Sequence[tuple[str, ...]] | None = None
    threads: Sequence[int] | None = None
    """By thread: the thread of each group."""

    def __len__(self) -> int:
        return len(self.names)


def group_ranges(capture: Capture, tree: Tree, by: str, is_shown: Column) -> RangeGroups:
    """Groups of the shown rows; groups without any row do not appear."""
    return GROUPINGS[by](capture, tree, is_shown)


def titles(capture: Capture, is_shown: Column) -> tuple[Column, list[str]]:
    """The number of each row's `domain:name` and these titles; equal texts have one number."""
    return _joined(capture, capture.ranges.domain, capture.ranges.name, is_shown, "")


def thread_titles(capture: Capture) -> list[str]:
    """A name for each thread that no other has: `main`, or `main (4711)` with its id where names repeat."""
    threads = capture.threads
    names = [capture.strings[name] if name != NONE else "" for name in threads.name.tolist()]
    several = len(capture.processes) > 1
    shown = []
    for name, process, thread_id in zip(names, threads.process.tolist(), threads.os_thread_id.tolist()):
        pid = capture.processes[process].pid if process < len(capture.processes) else 0
        text = name or f"thread {thread_id}"
        shown.append(f"{text} of process {pid}" if several else text)
    times_used = Counter(shown)
    numbered = [
        f"{text} ({thread_id})" if times_used[text] > 1 else text
        for text, thread_id in zip(shown, threads.os_thread_id.tolist())
    ]
    # An operating system gives the number of an ended thread to a new one.
    return _made_distinct(numbered)


def _by_name(capture: Capture, _: Tree, is_shown: Column) -> RangeGroups:
    of_row, names = titles(capture, is_shown)
    return RangeGroups(of_row, names)


def _by_path(capture: Capture, tree: Tree, is_shown: Column) -> RangeGroups:
    of_row, names = titles(capture, is_shown)
    path_of_row, ways = tree.paths(of_row)
    paths = [tuple(names[number] for number in way) for way in ways]
    return RangeGroups(path_of_row, [PATH_SEPARATOR.join(path) for path in paths], paths=paths)


def _by_thread(capture: Capture, _: Tree, is_shown: Column) -> RangeGroups:
    of_row, used = _dense(capture.ranges.thread.astype(np.int64), is_shown)
    shown = thread_titles(capture)
    return RangeGroups(of_row, [shown[thread] for thread in used], threads=used)


def _by_category(capture: Capture, _: Tree, is_shown: Column) -> RangeGroups:
    return RangeGroups(*_joined(capture, capture.ranges.domain, capture.ranges.category, is_shown, NO_CATEGORY))


def _by_domain(capture: Capture, _: Tree, is_shown: Column) -> RangeGroups:
    nothing = np.full(len(capture.ranges), NONE, np.int32)
    return RangeGroups(*_joined(capture, nothing, capture.ranges.domain, is_shown, NO_DOMAIN))


GROUPINGS: dict[str, Callable[[Capture, Tree, Column], RangeGroups]] = {
    "name": _by_name,
    "path": _by_path,
    "thread": _by_thread,
    "category": _by_category,
    "domain": _by_domain,
}


def _joined(capture: Capture, domain: Column, text: Column, is_shown: Column, absent: str) -> tuple[Column, list[str]]:
    """Groups by the texts `domain:text`; rows without the second text are one group, whatever their domain."""
    strings = capture.strings
    base = len(strings) + 1
    key = np.where(text == NONE, 0, (domain.astype(np.int64) + 1) * base) + text.astype(np.int64) + 1
    of_row, used = _dense(key, is_shown)
    names = []
    for above, below in (divmod(number, base) for number in used):
        name = strings[below - 1] if below else absent
        names.append(f"{strings[above - 1]}:{name}" if above else name)
    # Two processes define their strings each for themselves, and `a:b` may come about in two ways.
    number_of: dict[str, int] = {}
    merged = np.array([number_of.setdefault(name, len(number_of)) for name in names] + [NONE], np.int32)
    return merged[of_row], list(number_of)


def _dense(keys: Column, is_shown: Column) -> tuple[Column, list[int]]:
    """Keys as numbers from 0 in ascending order of the keys used, -1 where not shown; and the keys used."""
    of_row = np.full(len(keys), NONE, np.int32)
    shown = keys if is_shown.all() else keys[is_shown]
    if not len(shown):
        return of_row, []
    largest = int(shown.max())
    if largest <= _DENSE_KEYS * len(keys) + 1000:
        is_used = np.zeros(largest + 1, np.bool_)
        is_used[shown] = True
        used = np.flatnonzero(is_used)
        of_row[is_shown] = (np.cumsum(is_used, dtype=np.int32) - 1)[shown]
    else:
        used, number = np.unique(shown, return_inverse=True)
        of_row[is_shown] = number
    return of_row, used.tolist()


def _made_distinct(texts: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        result.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return result
