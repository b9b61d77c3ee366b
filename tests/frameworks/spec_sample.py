"""A sample of specs with every feature of theirs: each kind of value of each field in each direction, and each type."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.ops import Spec

Feature = tuple[str, str, str]


def features(spec: Spec) -> set[Feature]:
    """Direction, field and kind of value; types without the direction, since frameworks compile anew for each."""
    words = spec.words()
    direction = words.get("direction", "")
    return {("" if name == "dtype" else direction, name, kind_of(word)) for name, word in words.items()}


def kind_of(word: str) -> str:
    """A word itself (float16, same, NHWC); numbers above one are alike, as are lists of numbers that differ."""
    try:
        numbers = {float(part) for part in word.split("x")}
    except ValueError:
        return word
    if len(numbers) > 1:
        return "uneven"
    return "larger" if numbers.pop() > 1 else word


def sample_of(specs: Sequence[Spec]) -> list[Spec]:
    """Few of the specs, in their order, with all features that the specs have: always the one with most new ones."""
    missing = set[Feature]().union(*map(features, specs))
    chosen = []
    while missing:
        best = max(specs, key=lambda spec: len(features(spec) & missing))
        chosen.append(best)
        missing -= features(best)
    return [spec for spec in specs if spec in chosen]
