"""The line of a CUDA candidate that says how its kernel is started, and the numbers that it means for a spec.

    // profkit: grid (n + 15) / 16, (m + 15) / 16; block 16, 16; shared 4096; only dtype float32

Expressions are made of whole numbers, the fields of the operator's params struct, + - * / and parentheses.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from profkit.errors import KernelError, UnsupportedError
from profkit.ops.spec import Spec

EXAMPLE = "// profkit: grid (n + 15) / 16, (m + 15) / 16; block 16, 16"
_MOST_NUMBERS = {"grid": 3, "block": 3, "shared": 1}
_LINE = re.compile(r"^[ \t]*//[ \t]*profkit:(.*)$", re.MULTILINE)
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class Geometry:
    """One launch."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int


@dataclass(frozen=True)
class LaunchLine:
    """Expressions of the line; `only` names fields of the spec and the words they must have."""

    grid: Sequence[str]
    block: Sequence[str]
    shared: str = "0"
    only: Mapping[str, str] = field(default_factory=dict)

    def geometry(self, params: Mapping[str, int | float]) -> Geometry:
        """The numbers for these parameters."""
        grid, block = (tuple(evaluate(text, params) for text in texts) for texts in (self.grid, self.block))
        for name, sizes in (("grid", grid), ("block", block)):
            if min(sizes) < 1:
                raise KernelError(f"{name} {', '.join(map(str, sizes))}: every number must be at least 1")
        shared_bytes = evaluate(self.shared, params)
        if shared_bytes < 0:
            raise KernelError(f"shared {self.shared}: {shared_bytes} bytes cannot be asked for")
        return Geometry(grid, block, shared_bytes)

    def check(self, spec: Spec, name: str) -> None:
        """UnsupportedError for a spec that the line excludes."""
        words = spec.words()
        for key, word in self.only.items():
            if key not in words:
                raise KernelError(f"{name}: only {key} {word}: {spec.op} has no field {key}, but {', '.join(words)}")
            if words[key] != word:
                raise UnsupportedError(f"{name} is for {key} {word} only")


def read_launch_line(text: str, name: str) -> LaunchLine:
    """The first line of a source that begins with `// profkit:`."""
    found = _LINE.search(text)
    if found is None:
        raise KernelError(f"{name}: a kernel needs a line that says how it is started, as\n  {EXAMPLE}")
    parts = [part.strip().partition(" ") for part in found.group(1).split(";") if part.strip()]
    given = {word: _split(rest) for word, _, rest in parts}
    wrong = _trouble([word for word, _, _ in parts], given)
    if wrong:
        raise KernelError(
            f"{name}: {found.group(0).strip()}\n  {wrong}; it is grid, block, shared, only, as\n  {EXAMPLE}"
        )
    only = dict(part.split(maxsplit=1) for part in given.get("only", []))
    return LaunchLine(given["grid"], given["block"], given.get("shared", ["0"])[0], only)


def _trouble(words: Sequence[str], given: Mapping[str, Sequence[str]]) -> str:
    """What is wrong with the line; empty when nothing is."""
    unknown = [word for word in words if word not in (*_MOST_NUMBERS, "only")]
    repeated = [word for word in words if words.count(word) > 1]
    if unknown or repeated:
        return f"{unknown[0]!r} is not known" if unknown else f"{repeated[0]} appears twice"
    if not given.get("grid") or not given.get("block"):
        return "grid and block are needed"
    for word, parts in given.items():
        if word == "only" and not all(len(part.split()) > 1 for part in parts):
            return "only takes fields with the word that each must have, as dtype float32"
        if word != "only" and (not 1 <= len(parts) <= _MOST_NUMBERS[word] or "" in parts):
            return f"{word} takes {'one number' if word == 'shared' else 'one to three numbers'}"
    return ""


def evaluate(text: str, values: Mapping[str, int | float]) -> int:
    """A whole number; division rounds down."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, values)
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        names = ", ".join(name for name, value in values.items() if isinstance(value, int))
        raise KernelError(f"{text.strip()!r}: {error}; it may hold whole numbers, + - * / ( ) and {names}") from None


def _value(node: ast.expr, values: Mapping[str, int | float]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and isinstance(values.get(node.id), int):
        return int(values[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    raise ValueError(f"{ast.unparse(node)} is not known")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []
