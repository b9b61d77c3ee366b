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
        return Geometry(grid, block, evaluate(self.shared, params))

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
    given = {word: rest.strip() for word, _, rest in parts}
    unknown = [word for word in given if word not in ("grid", "block", "shared", "only")]
    if unknown or not given.get("grid") or not given.get("block"):
        wrong = f"{unknown[0]!r} is not known" if unknown else "grid and block are needed"
        raise KernelError(
            f"{name}: {found.group(0).strip()}\n  {wrong}; it is grid, block, shared, only, as\n  {EXAMPLE}"
        )
    return LaunchLine(
        _expressions(given["grid"]),
        _expressions(given["block"]),
        given.get("shared", "0"),
        _words(given.get("only", "")),
    )


def evaluate(text: str, values: Mapping[str, int | float]) -> int:
    """A whole number; division rounds down, as in C."""
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


def _expressions(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _words(text: str) -> dict[str, str]:
    pairs = [part.split() for part in text.split(",") if part.strip()]
    return {pair[0]: " ".join(pair[1:]) for pair in pairs}
