"""Packets of a Perfetto trace, read field by field by code that shares nothing with the writer: messages are
dictionaries {field number: [values]}, where a value is a number or bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[int, list[Any]]


def packets(data: bytes) -> Iterator[Message]:
    """Every packet of a trace."""
    for packet in message(data).get(1, ()):
        yield message(packet)


def message(data: bytes) -> Message:
    """The fields of a message; a ValueError when it is not a message."""
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _value(data, at, tag & 7)
        found.setdefault(tag >> 3, []).append(value)
    return found


def only(entry: Message, number: int, default: Any = None) -> Any:
    """The one value of a field."""
    values = entry.get(number, [default])
    assert len(values) == 1
    return values[0]


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return _varint(data, at)
    if kind == 1:
        return int.from_bytes(data[at : at + 8], "little"), at + 8
    if kind != 2:
        raise ValueError(f"no field of kind {kind} is written")
    size, at = _varint(data, at)
    if at + size > len(data):
        raise ValueError("a field is longer than its message")
    return data[at : at + size], at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
