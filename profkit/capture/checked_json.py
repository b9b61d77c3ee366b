"""JSON of untrusted files: text in, values out whose size, nesting and types were checked.

Worker side: standard library only.
"""

from __future__ import annotations

import errno
import gc
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, BinaryIO, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

LONGEST = 16 << 20
"""Characters of one document or value; texts and numbers take up to about 12 bytes for each of them."""
MOST_BRACKETS = 1_000_000
"""Lists and objects of one document or value, which take about 80 bytes each."""
DEEPEST = 50
"""Lists in lists and objects in objects; what profkit writes has a handful."""
_DIGITS = 19
Made = TypeVar("Made")


def parse_json(data: bytes, number: Callable[[str], Any] | None = None) -> Any:
    """The document's value; ValueError when it is too long, too deep or not JSON in UTF-8.

    `number` reads whole numbers, in place of `whole_number`.
    """
    if len(data) > LONGEST:
        raise ValueError(f"its JSON has {len(data):,} bytes, more than {LONGEST:,}")
    if data.count(b"[") + data.count(b"{") > MOST_BRACKETS:
        raise ValueError(f"its JSON has more than {MOST_BRACKETS:,} lists and objects")
    try:
        with nothing_collected():
            return checked(json.loads(data.decode("utf-8"), parse_int=number or whole_number))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Without the garbage collector, which looks through everything again and again while a large value is made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A file to be read; OSError for a pipe, which may be waited for for ever, and a device, which has no end."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file; copy it into one first")
    return file


def read_json(path: str | os.PathLike[str], number: Callable[[str], Any] | None = None) -> Any:
    """The value in a file; ValueError likewise, OSError when it cannot be read."""
    with open_file(path) as file:
        return parse_json(file.read(LONGEST + 1), number)


def read_kept(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The object in a file of the cache folder, which can be made again: empty where it is missing or damaged."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def whole_number(text: str) -> int:
    """A count or a time; more digits than these have are damage, on which arithmetic and SQL would fail."""
    if len(text) > _DIGITS + 1 or abs(int(text)) >= 1 << 63:
        raise ValueError(f"the number {text[:20]}... is too long")
    return int(text)


def checked(value: Any, depth: int = 0) -> Any:
    """The value without halves of characters, which no file can hold; ValueError when it is nested too deep.

    Lists and objects are mended where they are: a copy of a large one would not fit.
    """
    if isinstance(value, str):
        return whole_text(value)
    if not isinstance(value, (dict, list)):
        return value
    if depth == DEEPEST:
        raise ValueError("it is nested too deep")
    if isinstance(value, dict) and not all(key.isascii() for key in value):
        value = {whole_text(key): each for key, each in value.items()}
    for place, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, (dict, list)) or (isinstance(each, str) and not each.isascii()):
            value[place] = checked(each, depth + 1)
    return value


def whole_text(text: str) -> str:
    """The text with U+FFFD in place of halves of characters (lone surrogates)."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def made(kind: type[Made], values: Any, place: str, *, finite: bool = True, **known: Any) -> Made:
    """A dataclass from JSON values, each of the type that its field has; lists become tuples where it has these.

    `known` are fields that were made before; without `finite` numbers may be NaN and infinite.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{place} is not an object")
    types = get_type_hints(kind)
    given = {}
    for name, value in values.items():
        if name not in types or name in known:
            raise ValueError(f"{place} has the unknown field {shortened(name)}")
        check(value, types[name], f"{place} has {name}", finite=finite)
        given[name] = tuple(value) if get_origin(types[name]) is tuple else value
    needed = (item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING)  # type: ignore[arg-type]
    missing = [name for name in needed if name not in given and name not in known]
    if missing:
        raise ValueError(f"{place} has no {', '.join(missing)}")
    return kind(**given, **known)


def check(value: Any, wanted: Any, what: str, *, finite: bool = True) -> None:
    """Raise ValueError when the value is not of this type; `what` begins the sentence."""
    if not fits(value, wanted, finite):
        raise ValueError(f"{what} {shortened(value)}")


def shortened(value: Any) -> str:
    """A value for a sentence."""
    return repr(str(value)[:40])


def fits(value: Any, wanted: Any, finite: bool = True) -> bool:
    """Whether a JSON value has this type. Of a TypedDict the keys that are named are checked, others may be there."""
    if wanted is Any:
        return True
    inner = get_args(wanted)
    origin = get_origin(wanted)
    if origin in (UnionType, Union):
        return any(fits(value, each, finite) for each in inner)
    if origin in (list, tuple):
        return isinstance(value, list) and all(fits(each, inner[0], finite) for each in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(fits(each, inner[1], finite) for each in value.values())
    if is_typeddict(wanted):
        types = get_type_hints(wanted)
        return (
            isinstance(value, dict)
            and wanted.__required_keys__ <= value.keys()
            and all(fits(each, types[name], finite) for name, each in value.items() if name in types)
        )
    if wanted is float:
        return type(value) is int or (type(value) is float and (math.isfinite(value) or not finite))
    return type(value) is wanted
