"""Names of ranges and threads, each text once: a capture in, numbers per row and their texts out."""

from __future__ import annotations

from collections import Counter

import numpy as np

from profkit.capture.schema import NONE, Capture, Column

# Up to this multiple of the number of rows, a table of all possible keys is faster than sorting.
_DENSE_KEYS = 8


def titles(capture: Capture, is_shown: Column) -> tuple[Column, list[str]]:
    """The number of each range's `domain:name` and these titles; equal texts have one number."""
    return joined_texts(capture, capture.ranges.domain, capture.ranges.name, is_shown, "")


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


def joined_texts(
    capture: Capture, domain: Column, text: Column, is_shown: Column, absent: str
) -> tuple[Column, list[str]]:
    """Groups by the texts `domain:text`; rows without the second text are one group, whatever their domain."""
    strings = capture.strings
    base = len(strings) + 1
    key = np.where(text == NONE, 0, (domain.astype(np.int64) + 1) * base) + text.astype(np.int64) + 1
    of_row, used = dense(key, is_shown)
    names = []
    for above, below in (divmod(number, base) for number in used):
        name = strings[below - 1] if below else absent
        names.append(f"{strings[above - 1]}:{name}" if above else name)
    # Two processes define their strings each for themselves, and `a:b` may come about in two ways.
    number_of: dict[str, int] = {}
    merged = np.array([number_of.setdefault(name, len(number_of)) for name in names] + [NONE], np.int32)
    return merged[of_row], list(number_of)


def dense(keys: Column, is_shown: Column) -> tuple[Column, list[int]]:
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
