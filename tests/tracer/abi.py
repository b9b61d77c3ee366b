"""Our declarations of a binary interface against the real headers: pairs of names in, assertions for the compiler out.

A pair is `ours=theirs`, or one word where both have the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.tracer.programs import compile_c

ASSERTIONS = r"""
#include <cstddef>
#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours)
#define WITHIN(Ours, Theirs) static_assert(sizeof(Ours) <= sizeof(Theirs), #Ours)
#define SAME_SIZE(Ours, Theirs) SAME(sizeof(Ours), sizeof(Theirs))
#define SAME_MEMBER(Ours, ours, Theirs, theirs)                                         \
  SAME(offsetof(Ours, ours), offsetof(Theirs, theirs));                                 \
  SAME(sizeof(static_cast<Ours*>(nullptr)->ours), sizeof(static_cast<Theirs*>(nullptr)->theirs))
"""


def pairs(words: str) -> Iterator[tuple[str, str]]:
    """Ours and theirs."""
    for word in words.split():
        ours, _, theirs = word.partition("=")
        yield ours, theirs or ours


def same_numbers(our_prefix: str, their_prefix: str, words: str) -> str:
    """Constants, or places and sizes in bytes."""
    return "".join(f"SAME({our_prefix}{ours}, {their_prefix}{theirs});\n" for ours, theirs in pairs(words))


def same_members(ours: str, theirs: str, words: str) -> str:
    """Members of two structs: where they lie and how large they are; `theirs` may be several structs."""
    return "".join(
        f"SAME_MEMBER({ours}, {our_member}, {struct}, {their_member});\n"
        for struct in theirs.split()
        for our_member, their_member in pairs(words)
    )


def same_places(our_prefix: str, theirs: str, words: str) -> str:
    """Places in bytes against members of their structs."""
    return "".join(
        f"SAME({our_prefix}{ours}, offsetof({struct}, {member}));\n"
        for struct in theirs.split()
        for ours, member in pairs(words)
    )


def compare(folder: Path, headers: Path, text: str, *flags: str) -> None:
    """The compiler must take all of it."""
    compile_c(folder, text, "-std=c++17", "-c", "-isystem", str(headers), *flags, name="abi", suffix=".cpp")
