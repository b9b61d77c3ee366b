"""A JSON document read piece by piece: a stream of bytes in, the items of its large array out one after another.

A trace of gigabytes is never in memory as a whole. Numbers with a point stay text, so that nothing is rounded: a
time of day in microseconds with three decimals does not fit a double.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from profkit.errors import CaptureError

CHUNK_BYTES = 1 << 20
MAX_VALUE_CHARS = 1 << 28
_SPACE = " \t\n\r"
_DECODER = json.JSONDecoder(parse_float=str, parse_constant=str, strict=False)


class DamagedError(CaptureError):
    """The document ends too early or is not JSON from some place on; the message says where."""


class JsonStream:
    """Walks through the outermost object or array of a document."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._place = 0
        self._before = 0  # characters of the document before _text
        self._is_whole = False

    def walk(self, array: str) -> Iterator[tuple[str, Any]]:
        """Keys and values of the outermost object; of `array` (or of an outermost array) every item, under its name.

        DamagedError when the document breaks off: what came before it is good.
        """
        sign = self._next_sign()
        if sign == "[":
            yield from self._items(array)
        elif sign == "{":
            yield from self._members(array)
        else:
            raise DamagedError(f"it begins with {sign or 'nothing'!r}, not with an object or an array")
        if self._next_sign():
            raise DamagedError(f"something follows its end, at character {self._at():,}")

    def _members(self, array: str) -> Iterator[tuple[str, Any]]:
        self._place += 1
        if self._next_sign() == "}":
            self._place += 1
            return
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise DamagedError(f"a key is not a string, at character {self._at():,}")
            self._expect(":")
            if key != array:
                yield key, self._value()
            elif self._next_sign() == "[":
                yield from self._items(array)
            else:
                raise DamagedError(f"its {array!r} is not an array, at character {self._at():,}")
            if self._expect(",}") == "}":
                return

    def _items(self, name: str) -> Iterator[tuple[str, Any]]:
        self._place += 1
        if self._next_sign() == "]":
            self._place += 1
            return
        while True:
            yield name, self._value()
            if self._expect(",]") == "]":
                return

    def _expect(self, signs: str) -> str:
        sign = self._next_sign()
        if not sign:
            raise DamagedError(f"it ends too early, after {self._at():,} characters")
        if sign not in signs:
            raise DamagedError(f"expected {' or '.join(signs)} at character {self._at():,}, found {sign!r}")
        self._place += 1
        return sign

    def _next_sign(self) -> str:
        """The next character that is not a space; nothing at the end of the document."""
        while True:
            text, place, length = self._text, self._place, len(self._text)
            while place < length and text[place] in _SPACE:
                place += 1
            self._place = place
            if place < length:
                return text[place]
            if not self._read_more(CHUNK_BYTES):
                return ""

    def _value(self) -> Any:
        """The value that begins here, read on until it is whole."""
        self._next_sign()
        wanted = CHUNK_BYTES
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._place)
                # 12 may be the begin of 123, unless something follows it.
                if end < len(self._text) or self._is_whole:
                    self._place = end
                    return value
            except RecursionError:
                raise DamagedError(f"it is nested too deep, at character {self._at():,}") from None
            except ValueError as error:
                if self._is_whole:
                    what = "it ends too early" if self._is_cut(error) else f"it is not JSON ({_reason(error)})"
                    raise DamagedError(f"{what}, at character {self._at():,}") from None
                if not isinstance(error, json.JSONDecodeError):
                    raise DamagedError(f"a number is too long, at character {self._at():,}") from None
                # Far from the end of what is here, it is not a missing rest that is wrong.
                if len(self._text) - error.pos > CHUNK_BYTES:
                    raise DamagedError(f"it is not JSON ({_reason(error)}), at character {self._at():,}") from None
            if len(self._text) - self._place > MAX_VALUE_CHARS:
                raise DamagedError(f"a value at character {self._at():,} is longer than {MAX_VALUE_CHARS:,} characters")
            # The rest doubles each time: a value of many chunks is not parsed again for each of them.
            self._read_more(wanted)
            wanted *= 2

    def _is_cut(self, error: ValueError) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.pos >= len(self._text.rstrip()) or error.msg.startswith("Unterminated")

    def _read_more(self, count: int) -> bool:
        if self._is_whole:
            return False
        data = self._file.read(count)
        self._is_whole = not data
        self._before += self._place
        self._text = self._text[self._place :] + self._decode.decode(data, final=self._is_whole)
        self._place = 0
        return True

    def _at(self) -> int:
        return self._before + self._place


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error).split(";", maxsplit=1)[0]


def exact_ns(value: Any) -> int | None:
    """Microseconds as they stand in the document (integer, or text such as 12.345) in nanoseconds; None: no number.

    More than three decimals round to the nearest, halves up.
    """
    if type(value) is int:
        return value * 1000
    if type(value) is not str:
        return None
    whole, point, decimals = value.partition(".")
    try:
        if point and len(decimals) == 3 and decimals.isdecimal() and whole.lstrip("-").isdecimal():
            return int(whole + decimals)
        return _rounded_ns(value)
    except (ValueError, ArithmeticError):
        return None


def _rounded_ns(value: str) -> int | None:
    from decimal import ROUND_HALF_UP, Decimal

    number = Decimal(value)
    if not number.is_finite() or number.adjusted() > 30:
        return None
    return int((number * 1000).to_integral_value(ROUND_HALF_UP))
