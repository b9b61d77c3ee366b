"""New contents of inputs by number, their checksums, signatures: csrc/bindings/calls makes the same.

The parent's side: what the worker's native code wrote, kept and signed is worked out again here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.ops.dtypes import Array

_GOLDEN = 0x9E3779B97F4A7C15
_ALL = 0xFFFFFFFFFFFFFFFF
PROBES = 64
FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

Words = NDArray[np.uint64]


def mixed(words: Words) -> Words:
    """The finisher of splitmix64."""
    words = words + np.uint64(_GOLDEN)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def mixed_number(number: int) -> int:
    """Of one number."""
    with np.errstate(over="ignore"):
        return int(mixed(np.array([number & _ALL], np.uint64))[0])


def contents_seed(seed: int, number: int, place: int) -> int:
    """Of the input that is at this place among those that are written, in the call of this number."""
    return mixed_number(mixed_number(seed + number) + place)


def new_contents(seed: int, shape: Sequence[int], part: Sequence[slice], dtype: np.dtype[Any]) -> Array:
    """A part of an input with the contents of this seed: values in [-2, 2)."""
    words = _words_of(seed, shape, part).view(np.int64)
    if dtype.itemsize == 8:
        return np.asarray((words >> 11) * 2.0**-51)
    if dtype.itemsize == 4:
        return np.asarray((words >> 40).astype(np.float32) * np.float32(2.0**-22))
    return np.asarray(((words >> 56).astype(np.float32) * np.float32(2.0**-6)).astype(dtype))


def nudged_contents(seed: int, whole: Array, part: Sequence[slice]) -> Array:
    """A part of an input, each value with one of two bits of its fraction changed: by 0.1 to 0.4 %, at most 1.6 %."""
    fraction = FRACTION_BITS[whole.dtype.name]
    word = np.dtype(f"u{whole.dtype.itemsize}").type
    bits = np.ascontiguousarray(whole[tuple(part)]).view(word)
    changed = (_words_of(seed, whole.shape, part) & np.uint64(1)).astype(word) + word(max(0, fraction - 9))
    is_normal = (bits << word(1)) >> word(fraction + 1) != 0
    nudged: Array = np.where(is_normal, bits ^ (word(1) << changed), bits).view(whole.dtype)
    return nudged


def _words_of(seed: int, shape: Sequence[int], part: Sequence[slice]) -> Words:
    """A word for each element, by its place in the whole."""
    strides = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    index: Any = np.zeros((), np.uint64)
    for axis, piece in enumerate(part):
        along = np.arange(shape[axis], dtype=np.uint64)[piece] * np.uint64(strides[axis])
        index = index + along.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return mixed(index + np.uint64(seed & _ALL))


def contents_sum(seed: int, contents: bytes | memoryview) -> int:
    """Depends on every byte and its place."""
    taken = bytes(contents)
    padded = np.frombuffer(taken + b"\0" * (-len(taken) % 8), np.uint64)
    weights = np.arange(len(padded), dtype=np.uint64) * np.uint64(2 * _GOLDEN & _ALL) + np.uint64((seed | 1) & _ALL)
    return int(np.sum((padded ^ (padded >> np.uint64(32))) * weights, dtype=np.uint64)) if taken else 0


def signature(key: bytes, text: bytes) -> int:
    """SipHash-2-4 of a reply. Written out: a hundred words of every reply go through it."""
    k0, k1 = int.from_bytes(key[:8], "big"), int.from_bytes(key[8:], "big")
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    whole = len(text) // 8 * 8
    words = [*memoryview(text[:whole]).cast("Q")] if sys.byteorder == "little" else _words(text[:whole])
    words.append(len(text) << 56 & _ALL | int.from_bytes(text[whole:], "little"))
    rounds = 2
    for word in (*words, None):
        if word is None:
            v2 ^= 0xFF
            rounds = 4
        else:
            v3 ^= word
        for _ in range(rounds):
            v0 = v0 + v1 & _ALL
            v1 = (v1 << 13 & _ALL | v1 >> 51) ^ v0
            v2 = v2 + v3 & _ALL
            v3 = (v3 << 16 & _ALL | v3 >> 48) ^ v2
            v0 = (v0 << 32 & _ALL | v0 >> 32) + v3 & _ALL
            v3 = (v3 << 21 & _ALL | v3 >> 43) ^ v0
            v2 = v2 + v1 & _ALL
            v1 = (v1 << 17 & _ALL | v1 >> 47) ^ v2
            v2 = v2 << 32 & _ALL | v2 >> 32
        if word is not None:
            v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3


def _words(text: bytes) -> list[int]:
    return [int.from_bytes(text[at : at + 8], "little") for at in range(0, len(text), 8)]
