"""From words to specs: the values given for each field and the presets go in, every combination comes out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from profkit.errors import SpecError, UsageError
from profkit.ops import SPECS, find_preset
from profkit.ops.axes import PADDING, Kind
from profkit.ops.spec import Spec

CELL_LIMIT = 2000
"""More cells than this are a mistake: even at one second each they take over half an hour."""


def split_list(words: str | Sequence[str]) -> list[str]:
    listed = [words] if isinstance(words, str) else words
    return [item.strip() for text in listed for item in text.split(",")]


def build_specs(
    op: str, presets: Sequence[str], values: Mapping[str, str], other_axes: Mapping[str, int] | None = None
) -> list[Spec]:
    """Each preset (the default without any) with each combination of the given values, checked.

    `other_axes` are lengths of axes that are not fields of the spec (threads, ...): they multiply the cells, too.
    """
    kinds = {item.name: item.metadata["kind"] for item in fields(SPECS[op])}
    starts = [find_preset(op, name) for name in _distinct("preset", presets)] or [SPECS[op]()]
    axes = {name: _axis_values(SPECS[op], kinds[name], name, words) for name, words in values.items()}
    lengths = {"preset": len(starts), **{name: len(axis) for name, axis in axes.items()}, **(other_axes or {})}
    cells = math.prod(lengths.values())
    if cells > CELL_LIMIT:
        product = " x ".join(f"{name} {length}" for name, length in lengths.items() if length > 1)
        raise UsageError(f"the sweep has {cells} cells ({product}), more than {CELL_LIMIT}: give fewer values")
    combinations = [dict(zip(axes, chosen)) for chosen in itertools.product(*axes.values())]
    specs = [start.replaced(**changes) for start in starts for changes in combinations]
    # Two presets may become equal once a flag overrides their difference; they are measured once.
    return list(dict.fromkeys(specs))


def parse_counts(name: str, words: str) -> list[int]:
    """Distinct whole numbers above zero from a comma list."""
    counts = []
    for word in _distinct(name, split_list(words)):
        if not word.isdecimal() or int(word) < 1:
            raise UsageError(f"{name}: expected whole numbers from 1, as in 1,2,4, got {word!r}")
        counts.append(int(word))
    return counts


def parse_words(name: str, words: str, known: Sequence[str]) -> list[str]:
    """Distinct words out of a few from a comma list."""
    given = _distinct(name, split_list(words))
    wrong = next((word for word in given if word not in known), None)
    if wrong is not None:
        raise UsageError(f"--{name}: expected {' or '.join(known)}, or {','.join(known)} for both, got {wrong!r}")
    return given


def _axis_values(spec: type[Spec], kind: Kind, name: str, words: str) -> list[Any]:
    try:
        parsed = [kind.parse(name, word) for word in split_list(words)]
    except SpecError as error:
        raise SpecError(f"{error}\n  {spec.size_formula}" if spec.size_formula else str(error)) from None
    twice = next((value for index, value in enumerate(parsed) if value in parsed[:index]), None)
    if twice is not None:
        hint = ""
        if kind is PADDING:
            hint = "; four paddings of one spec are written with x, as 1x2x1x2 (top x bottom x left x right)"
        flag = f"--{name.replace('_', '-')} {words}"
        raise UsageError(f"{flag}: a comma list is a sweep, and {kind.word(twice)} appears twice{hint}")
    return parsed


def _distinct(name: str, items: Sequence[str]) -> list[str]:
    twice = next((item for index, item in enumerate(items) if item in items[:index]), None)
    if twice is not None:
        raise UsageError(f"--{name} {','.join(items)}: {twice} appears twice")
    return list(items)
