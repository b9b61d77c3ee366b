"""Reading a study's TOML: tables in, checked values out; an error names the field, its line and the nearest known name.

The standard library's reader does not keep line numbers, so the line is looked up when there is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.capture.checked_json import DEEPEST, checked
from profkit.errors import UsageError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LONGEST = 64 << 10
"""Bytes of a study; the longest that comes with profkit has 4 thousand."""
MOST_ITEMS = 1000
MOST = 1_000_000
"""The largest count; more steps than this take days."""
LARGEST = sys.float_info.max
"""The largest number: TOML has whole ones of thousands of digits."""
_LONGEST_VALUE = 60  # in an error
_LONGEST_MESSAGE = 600
_NAME = r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'"""
_NAMES = rf"(?:{_NAME})(?:\s*\.\s*(?:{_NAME}))*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_NAMES})\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(rf"\s*({_NAMES})\s*=")
_LONG_QUOTES = re.compile(r'"""|\'\'\'')
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    list: "a list in [ ]",
    dict: "a table",
}


@dataclass(frozen=True)
class StudyText:
    """A study's text and what people call it."""

    label: str
    text: str

    def tables(self) -> dict[str, Any]:
        """The parsed file; what is not TOML is a UsageError with its line."""
        # Before the reader, whose time grows with the square of the nesting.
        if any(len(keys) > DEEPEST for _, keys in _keys(self.text)):
            raise UsageError(f"{self.label} is nested too deep")
        try:
            tables: dict[str, Any] = checked(tomllib.loads(self.text))
            return tables
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{self.label} is not TOML: {error}") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{self.label} is nested too deep, or has a number that is too long") from None

    def line_of(self, path: Sequence[str]) -> int | None:
        """The line on which this field (or the innermost table around it that has a line) begins."""
        lines = {keys: number for number, keys in _keys(self.text)}
        return next((lines[tuple(path[:end])] for end in range(len(path), 0, -1) if tuple(path[:end]) in lines), None)


@dataclass(frozen=True)
class TomlSection:
    source: StudyText
    values: Mapping[str, Any]
    path: tuple[str, ...] = ()

    def error(self, name: str, message: str) -> UsageError:
        """An error about one field: file, line, field, what is wrong."""
        path = (*self.path, name) if name else self.path
        line = self.source.line_of(path)
        place = f"{self.source.label}, line {line}" if line else self.source.label
        field = ".".join(_quoted(name) if len(name) <= _LONGEST_VALUE else f"{name[:_LONGEST_VALUE]}…" for name in path)
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 2 :]}"
        return UsageError(f"{place}: {field or 'the study'}: {message}")

    def allow(self, names: Iterable[str], what: str = "field") -> None:
        known = list(names)
        for name in self.values:
            if name not in known:
                raise self.error(name, f"unknown {what}; {nearest(name, known)}")

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; without a default it must be there."""
        value = self._typed(name, str, default)
        if not str(value).strip() and default != "":
            raise self.error(name, "must not be empty")
        return str(value).strip()

    def count(self, name: str, default: int | None, least: int = 1, most: int = MOST) -> int:
        """A whole number from `least` to `most`."""
        value = self._typed(name, int, default)
        if value < least:
            raise self.error(name, f"must be at least {least}, got {value}")
        if value > most:
            raise self.error(name, f"must be at most {most:,}, got {quoted_value(value)}")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        """A number of at least 0."""
        value = self._typed(name, float, default)
        if not 0 <= value <= LARGEST:
            raise self.error(name, f"must be a number from 0 on, got {quoted_value(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        return bool(self._typed(name, bool, default))

    def items(self, name: str, unique: bool = True) -> list[Any]:
        """A list with something in it, nothing twice unless it need not be unique."""
        values = list(self._typed(name, list, None))
        if not values:
            raise self.error(name, "is empty: there would be nothing to run")
        if len(values) > MOST_ITEMS:
            raise self.error(name, f"has {len(values):,} values, more than {MOST_ITEMS:,}")
        for index, value in enumerate(values if unique else ()):
            if value in values[:index]:
                raise self.error(name, f"{quoted_value(value)} appears twice")
        return values

    def words(self, name: str) -> list[str]:
        """A list of texts, likewise."""
        values = self.items(name)
        for value in values:
            if not isinstance(value, str):
                raise self.error(name, f"expected texts in quotes, got {quoted_value(value)}")
        return values

    def section(self, name: str) -> TomlSection:
        """A table inside; an empty one when it is not there."""
        return TomlSection(self.source, self._typed(name, dict, {}), (*self.path, name))

    def _typed(self, name: str, kind: type, default: Any) -> Any:
        if name not in self.values:
            if default is None:
                raise self.error(name, f"is missing; expected {_KINDS[kind]}")
            return default
        value = self.values[name]
        # TOML has 1 and 1.0; a whole number is a number too. A bool is an int in Python only.
        accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise self.error(name, f"expected {_KINDS[kind]}, got {quoted_value(value)}")
        return value


def quoted_value(value: Any) -> str:
    """A value in an error: its begin if it is long."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a number of many digits"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every header and every key at the start of a line with its full path, the first line being 1."""
    table: tuple[str, ...] = ()
    is_inside_text = False
    for number, line in enumerate(text.splitlines(), start=1):
        if not is_inside_text:
            if header := _HEADER.match(line):
                table = _split(header[1])
                yield number, table
            elif key := _KEY.match(line):
                yield number, (*table, *_split(key[1]))
        if len(_LONG_QUOTES.findall(line)) % 2:
            is_inside_text = not is_inside_text


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(name[1:-1] if name[0] in "\"'" else name for name in re.findall(_NAME, dotted))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
