"""Kinds of spec fields: how a value is read from a flag, a JSON number or Python, and written back.

One table serves the dataclass (normalisation), the command line (parsing, help), tables and tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from profkit.errors import SpecError

Pair = tuple[int, int]
Padding = str | tuple[int, int, int, int]

if TYPE_CHECKING:
    Stored = TypeVar("Stored")

    # Annotation of a field that takes several forms and stores one: type checkers read the constructor's argument
    # from __set__ and the attribute from __get__. It does not exist at run time.
    class ParsedField(Generic[Stored]):
        """Takes a number, a text or several numbers."""

        @overload
        def __get__(self, instance: None, owner: Any) -> ParsedField[Stored]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> Stored: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
        def __set__(self, instance: Any, value: int | str | Sequence[int]) -> None: ...

    PairField = ParsedField[Pair]  # 5, "3x5" or (3, 5) as (3, 5)
    CountsField = ParsedField[tuple[int, ...]]  # 5, "800,400" or (800, 400) as (800, 400)
    PaddingField = ParsedField[Padding]  # 2, "same", "1x2x1x2" or (1, 2, 1, 2) as a word or four numbers


@dataclass(frozen=True)
class Kind:
    """`parse` takes any accepted form to the one stored; `word` takes the stored form to the flag's word.

    `numbers` are the fields of the operator's C struct that the value becomes, given its name.
    """

    metavar: str
    parse: Callable[[str, Any], Any]
    word: Callable[[Any], str] = str
    to_json: Callable[[Any], Any] = lambda value: value
    numbers: Callable[[str, Any], dict[str, int | float]] = lambda name, value: {name: value}


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool):
        raise SpecError(f"{name}: expected a whole number, got {value!r}")
    try:
        number = int(value) if not isinstance(value, float) or value.is_integer() else None
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise SpecError(f"{name}: expected a whole number, got {value!r}")
    return number


def _parse_count(name: str, value: Any) -> int:
    number = _integer(name, value)
    if number < 1:
        raise SpecError(f"{name} must be at least 1, got {number}")
    return number


def _numbers(name: str, value: Any) -> list[int]:
    parts = value.split("x") if isinstance(value, str) else value
    if isinstance(parts, Sequence):
        return [_integer(name, part) for part in parts]
    return [_integer(name, parts)]


def _parse_counts(name: str, value: Any) -> tuple[int, ...]:
    """A list is one value of the field, not a sweep over it."""
    if value in ("", "none"):
        return ()
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(_parse_count(name, part) for part in (parts if isinstance(parts, Sequence) else [parts]))


def _parse_pair(name: str, value: Any) -> Pair:
    numbers = _numbers(name, value)
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2:
        raise SpecError(f"{name}: expected one number or two as 3x5 (height x width), got {value!r}")
    if min(numbers) < 1:
        raise SpecError(f"{name} must be at least 1 in both directions, got {numbers[0]}x{numbers[1]}")
    return numbers[0], numbers[1]


def _parse_padding(name: str, value: Any) -> Padding:
    if value in ("same", "valid"):
        return str(value)
    numbers = _numbers(name, value)
    if len(numbers) == 1:
        numbers *= 4
    elif len(numbers) == 2:
        numbers = [numbers[0], numbers[0], numbers[1], numbers[1]]
    if len(numbers) != 4:
        raise SpecError(
            f"{name}: expected same, valid, one number, or four as 1x2x1x2 (top x bottom x left x right), got {value!r}"
        )
    if min(numbers) < 0:
        raise SpecError(f"{name} cannot be negative, got {'x'.join(map(str, numbers))} (top x bottom x left x right)")
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _parse_flag(name: str, value: Any) -> bool:
    words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if isinstance(value, bool):
        return value
    if str(value).lower() not in words:
        raise SpecError(f"{name}: expected yes or no, got {value!r}")
    return words[str(value).lower()]


def _parse_number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise SpecError(f"{name}: expected a finite number, got {value!r}")
    return number


def _number_word(value: float) -> str:
    """The short form when it reads back as the same number, otherwise all digits."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _short(value: Any) -> Any:
    """5x5 is written 5: the shortest form that parses back to the same value."""
    if isinstance(value, str):
        return value
    return value[0] if len(set(value)) == 1 else list(value)


def _short_word(value: Any) -> str:
    short = _short(value)
    return "x".join(map(str, short)) if isinstance(short, list) else str(short)


def _sides(name: str, value: Pair) -> dict[str, int | float]:
    """`kernel_size` becomes kernel_h and kernel_w."""
    stem = name.removesuffix("_size")
    return {f"{stem}_h": value[0], f"{stem}_w": value[1]}


COUNT = Kind("N", _parse_count)
COUNTS = Kind(
    "N[,N...]",
    _parse_counts,
    lambda value: ",".join(map(str, value)) or "none",
    lambda value: value[0] if len(value) == 1 else list(value),
)
PAIR = Kind("N|HxW", _parse_pair, _short_word, _short, _sides)
# What `same` comes to depends on other fields: the spec derives the numbers.
PADDING = Kind("N|same|valid|TxBxLxR", _parse_padding, _short_word, _short, lambda *_: {})
FLAG = Kind(
    "yes|no",
    _parse_flag,
    lambda value: "yes" if value else "no",
    numbers=lambda name, value: {name: int(value)},
)
NUMBER = Kind("X", _parse_number, _number_word)


def choice(*words: str, among: Sequence[str] = ()) -> Kind:
    """A field that takes one of the given words; its number is the word's place, as in the enum of that name in C.

    `among` are all words of the enum, where a field takes some of them.
    """
    places = among or words

    def parse(name: str, value: Any) -> str:
        if value not in words:
            raise SpecError(f"{name}: expected one of {', '.join(words)}, got {value!r}")
        return str(value)

    return Kind("|".join(words), parse, numbers=lambda name, value: {name: places.index(value)})


def choice_of_numbers(*numbers: int) -> Kind:
    def parse(name: str, value: Any) -> int:
        number = _integer(name, value)
        if number not in numbers:
            raise SpecError(f"{name}: expected {' or '.join(map(str, numbers))}, got {number}")
        return number

    return Kind("|".join(map(str, numbers)), parse)


def axis(kind: Kind, default: Any, help: str) -> Any:
    """A dataclass field that is also a flag, a sweep axis and a table column."""
    if default is MISSING:
        return field(metadata={"kind": kind, "help": help})
    return field(default=default, metadata={"kind": kind, "help": help})
