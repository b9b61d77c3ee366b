"""Kernels whose short names are equal told apart: full and short names in, short names out that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

_WORD = re.compile(r"\w+")
_WORDS_READ = 200
_LABEL_LENGTH = 40


def distinct_shorts(names: Sequence[str], shorts: Sequence[str | None]) -> tuple[str | None, ...]:
    """Where instances of one template share a short name, the first words in which they differ follow it."""
    rows_of: dict[str, list[int]] = {}
    for row, short in enumerate(shorts):
        if short is not None:
            rows_of.setdefault(short, []).append(row)
    found = list(shorts)
    for short, rows in rows_of.items():
        if len(rows) > 1:
            for row, label in zip(rows, _labels([names[row] for row in rows])):
                found[row] = f"{short} [{label}]" if label else short
    return tuple(found)


def _labels(names: Sequence[str]) -> list[str]:
    labels = [""] * len(names)
    words = [_WORD.findall(name)[:_WORDS_READ] for name in names]
    for column in zip_longest(*words, fillvalue=""):
        if len(set(column)) > 1:
            labels = [f"{label} {word}".strip() for label, word in zip(labels, column)]
        if len(set(labels)) == len(names):
            break
    return [label if len(label) <= _LABEL_LENGTH else label[: _LABEL_LENGTH - 1] + "…" for label in labels]
