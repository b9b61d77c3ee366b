"""Names for people: keys without what all share, specs as the words that matter, swept axes. Specs and keys in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields

from rich.cells import cell_len, chop_cells

from profkit.measurement.result import Cell
from profkit.ops import presets_for
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec
from profkit.rendering.quantities import ABSENT, plural
from profkit.rendering.terminal import visible

# A default that says "nothing special"; a field that holds it is left out of a title.
_NEUTRAL = frozenset({"0", "1", "no", "none", "forward", "NCHW", "-1"})
ELLIPSIS = "…"


def short_keys(keys: Iterable[str]) -> dict[str, str]:
    """Each key without the operator and without `/cpu`, unless two would become equal."""
    names = {key: parts_of(key).short for key in keys}
    times_used = Counter(names.values())
    return {key: name if times_used[name] == 1 else key for key, name in names.items()}


def fitted_names(names: Sequence[str], width: int) -> list[str]:
    """Names cut in the middle to a width; wider where the cut would make two of them equal."""
    for limit in range(max(5, width), max((len(name) for name in names), default=0) + 1):
        cut = [cut_middle(name, limit) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return list(names)


def spec_words(spec: Spec, always: Collection[str] = ()) -> dict[str, str]:
    """The spec's words, without fields at a default that says nothing."""
    words = spec.words()
    usual = {item.name: item.metadata["kind"].word(item.default) for item in fields(spec)}
    return {name: word for name, word in words.items() if name in always or word != usual[name] or word not in _NEUTRAL}


def spec_text(spec: Spec, always: Collection[str] = ()) -> str:
    """The words in one line: `batch 128, in-channels 64, ...`."""
    return ", ".join(f"{name.replace('_', '-')} {word}" for name, word in spec_words(spec, always).items())


def preset_name(spec: Spec) -> str:
    """The preset that this spec is, or nothing."""
    return next((name for name, preset in presets_for(spec.op).items() if preset == spec), "")


def cell_words(cell: Cell) -> dict[str, str]:
    """Everything that can distinguish two cells of one run."""
    conditions = {"threads": str(cell.threads), "cache": cell.cache, "output": cell.output}
    return {"op": cell.spec.op, **cell.spec.words(), **conditions}


def conditions_text(cell: Cell) -> str:
    """How a cell was measured: `2 threads, hot cache`."""
    output = ", reused output" if cell.output == "reused" else ""
    return f"{plural(cell.threads, 'thread')}, {cell.cache} cache{output}"


def difference_lines(differences: Iterable[tuple[str, str, str]], is_unfair: bool) -> list[str]:
    """Name, a's value and b's of what else differs between two captures or results; `is_unfair`: as warnings."""
    start = "warning: " if is_unfair else ""
    return [f"{start}{name} differs: a {visible(a) or ABSENT}, b {visible(b) or ABSENT}" for name, a, b in differences]


def swept_axes(cells: Sequence[Cell]) -> list[str]:
    """The words that differ between cells, in the order of the spec's fields."""
    described = [cell_words(cell) for cell in cells]
    names = dict.fromkeys(name for words in described for name in words)
    return [name for name in names if len({words.get(name) for words in described}) > 1]


def cut_middle(text: str, width: int) -> str:
    """The text in at most this number of cells; what is too long loses its middle."""
    if (len(text) if text.isascii() else cell_len(text)) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    tail = (width - 1) // 2
    if text.isascii():
        return f"{text[: width - 1 - tail]}{ELLIPSIS}{text[len(text) - tail :]}"
    head = chop_cells(text, width - 1 - tail)[0] if width - 1 - tail else ""
    # Cells are counted from the left, so the tail is cut from the reversed text.
    end = chop_cells(text[::-1], tail)[0][::-1] if tail else ""
    return f"{head}{ELLIPSIS}{end}"
