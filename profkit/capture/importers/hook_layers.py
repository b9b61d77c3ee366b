"""Layers told by pairs of hooks around a module's forward: ranges in, the same with a layer's range for each pair."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from profkit.capture.schema import NONE, Column, Level
from profkit.capture.trace_tables import Strings

# FSDP brackets every module that it manages: `FSDP::pre_forward (encoder.block.3)` ... `FSDP::post_forward (...)`.
_HOOK = re.compile(r"FSDP::(pre|post)_(forward|backward) \((.+)\)$")


def with_hook_layers(ranges: dict[str, Column], texts: Sequence[str], strings: Strings) -> dict[str, Column]:
    """From the begin of a first hook to the end of the second one of the same module and thread is a layer.

    A hook whose partner was not recorded adds nothing.
    """
    hooks = {number: match for number in np.unique(ranges["name"]).tolist() if (match := _HOOK.match(texts[number]))}
    if not hooks:
        return ranges
    added: list[tuple[int, int, int, int, int]] = []
    waiting: dict[tuple[int, str, str], list[int]] = {}
    rows = np.flatnonzero(np.isin(ranges["name"], list(hooks)))
    for row in rows[np.argsort(ranges["start_ns"][rows], kind="stable")].tolist():
        side, phase, module = hooks[int(ranges["name"][row])].groups()
        thread = int(ranges["thread"][row])
        firsts = waiting.setdefault((thread, phase, module), [])
        if side == "pre":
            firsts.append(row)
        elif firsts:
            begin, end = int(ranges["start_ns"][firsts.pop()]), int(ranges["end_ns"][row])
            added.append((thread, begin, end, strings.number(module), strings.number(phase)))
    made = np.array(added, np.int64).reshape(len(added), 5)
    more = {
        "level": np.full(len(made), Level.LAYER, np.int64),
        **{name: made[:, column] for column, name in enumerate(("thread", "start_ns", "end_ns", "name", "phase"))},
    }
    parts = ((ranges, len(ranges["name"])), (more, len(made)))
    return {
        name: np.concatenate([part.get(name, np.full(size, NONE, np.int64)) for part, size in parts])
        for name in dict.fromkeys([*ranges, *more])
    }
