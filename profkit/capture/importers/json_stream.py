"""A JSON document read piece by piece: a stream of bytes in, the items of its large array out one after another.

A trace of gigabytes is never in memory as a whole. Numbers with a point stay text, so that nothing is rounded: a
time of day in microseconds with three decimals does not fit a double.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from profkit.capture.checked_json import DEEPEST, LONGEST, MOST_BRACKETS, checked, nothing_collected, whole_number
from profkit.capture.importers.unzipping import Unzipped
from profkit.errors import CaptureError

CHUNK_BYTES = 1 << 20
MOST_SHORT, SHORTEST = 100_000, 40
"""Above this number of items, each must be this long: an event with a name and a time has 60 characters or more."""
_LEAST_KEPT = 100
"""Characters that a value beside the array counts for at least, with its key."""
_SPACES = re.compile(r"[ \t\n\r]*")
EXACT = json.JSONDecoder(parse_float=str, parse_constant=str, strict=False)
"""Numbers with a point stay text."""
NUMBERS = json.JSONDecoder(parse_int=whole_number)
"""Numbers become numbers."""


class DamagedError(CaptureError):
    """The document ends too early or is not JSON from some place on; the message says where."""


class JsonStream:
    """Walks through the outermost object or array of a document; bytes that are no UTF-8 are replaced or refused."""

    def __init__(self, file: Unzipped, decoder: json.JSONDecoder = EXACT, errors: str = "replace") -> None:
        self._file = file
        self._decoder = decoder
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors)
        self._text = ""
        self._place = 0
        self._before = 0  # characters of the document before _text
        self._kept = [0, 0]  # characters, and lists and objects, of values beside the array
        self._is_whole = False
        self._brackets = 0  # lists and objects of all values so far
        self.has_array = False
        """Whether the array that was walked through is there; it may be empty."""

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
                yield key, self._beside()
            elif self._next_sign() == "[":
                yield from self._items(array)
            else:
                raise DamagedError(f"its {array!r} is not an array, at character {self._at():,}")
            if self._expect(",}") == "}":
                return

    def _beside(self) -> Any:
        """A value beside the array: readers keep these, so that all together may be as large as one."""
        begin, brackets = self._at(), self._brackets
        value = self._value()
        self._kept[0] += self._at() - begin + _LEAST_KEPT
        self._kept[1] += self._brackets - brackets
        if self._kept[0] > LONGEST or self._kept[1] > MOST_BRACKETS:
            raise DamagedError(f"too much beside its events or cells, at character {self._at():,}")
        return value

    def _items(self, name: str) -> Iterator[tuple[str, Any]]:
        self.has_array = True
        self._place += 1
        if self._next_sign() == "]":
            self._place += 1
            return
        begin, count = self._at(), 0
        while True:
            yield name, self._value()
            if self._expect(",]") == "]":
                return
            count += 1
            if count % MOST_SHORT == 0 and self._at() - begin < SHORTEST * count:
                raise DamagedError(f"its {count:,} {name} are too short to be events")

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
        spaces = 0
        while True:
            begin, self._place = self._place, self._after_spaces()
            spaces += self._place - begin
            if self._place < len(self._text):
                return self._text[self._place]
            if spaces > LONGEST:
                raise DamagedError(f"more than {LONGEST:,} spaces before character {self._at():,}")
            if not self._read_more(CHUNK_BYTES):
                return ""

    def _after_spaces(self) -> int:
        match = _SPACES.match(self._text, self._place)
        return match.end() if match else self._place

    def _value(self) -> Any:
        """The value that begins here, read on until it is whole."""
        self._next_sign()
        wanted = CHUNK_BYTES
        while True:
            try:
                value, end = self._parsed(is_long=wanted > CHUNK_BYTES)
                # 12 may be the begin of 123, unless something follows it.
                if end < len(self._text) or self._is_whole:
                    return self._checked(value, end)
            except RecursionError:
                raise DamagedError(f"it is nested too deep, at character {self._at():,}") from None
            except ValueError as error:
                if self._is_whole:
                    what = "it ends too early" if self._is_cut(error) else f"it is not JSON ({_reason(error)})"
                    raise DamagedError(f"{what}, at character {self._at():,}") from None
                if not isinstance(error, json.JSONDecodeError):
                    raise DamagedError(f"a number is too long, at character {self._at():,}") from None
                # Far from the end of what is here, it is not a missing rest that is wrong; a string is known by its
                # begin, however long it is.
                if len(self._text) - error.pos > CHUNK_BYTES and not _is_string(error):
                    raise DamagedError(f"it is not JSON ({_reason(error)}), at character {self._at():,}") from None
            room = LONGEST - (len(self._text) - self._place)
            if room <= 0:
                raise DamagedError(f"a value at character {self._at():,} is longer than {LONGEST:,} characters")
            # The rest doubles each time: a value of many chunks is not parsed again for each of them.
            self._read_more(min(wanted, room))
            wanted *= 2
            # Only now: before, the text holds thousands of other values.
            if self._text.count("[", self._place) + self._text.count("{", self._place) > MOST_BRACKETS:
                raise DamagedError(
                    f"a value at character {self._at():,} has more than {MOST_BRACKETS:,} lists and objects"
                )

    def _parsed(self, is_long: bool) -> tuple[Any, int]:
        if not is_long:
            return self._decoder.raw_decode(self._text, self._place)
        with nothing_collected():
            return self._decoder.raw_decode(self._text, self._place)

    def _checked(self, value: Any, end: int) -> Any:
        """The value that ends there, without halves of characters; few values can have these, or be nested deep."""
        text, begin = self._text, self._place
        brackets = text.count("[", begin, end) + text.count("{", begin, end)
        self._brackets += brackets
        if brackets > DEEPEST or text.find("\\u", begin, end) >= 0:
            try:
                value = checked(value)
            except ValueError as error:
                raise DamagedError(f"{error}, at character {self._at():,}") from None
        self._place = end
        return value

    def _is_cut(self, error: ValueError) -> bool:
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.pos >= len(self._text.rstrip()) or _is_string(error)

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


def _is_string(error: json.JSONDecodeError) -> bool:
    """Whether it is a string that has no end."""
    return error.msg.startswith("Unterminated")


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error).split(";", maxsplit=1)[0]


def exact_ns(value: Any) -> int | None:
    """Microseconds of the document (integer, or text such as 12.345) in nanoseconds; None: not a number.

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
