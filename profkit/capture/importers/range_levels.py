"""The level of a foreign trace's range, from its name: step, layer, operator or the framework's machinery; and
layers from pairs of hooks around a module's forward."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from profkit.capture.schema import Column, Level
from profkit.capture.trace_tables import Strings, stacked

MODULE_PREFIX = "nn.Module: "
_STEP = re.compile(r"ProfilerStep[#*]|(?:step|iteration|iter)[ _#:]*\d+$", re.IGNORECASE)
_RUNTIME = "autograd::engine::"
# Collectives and the like come as annotations; they are work, not a part of the network.
_OPERATOR = re.compile(r"(?:nccl|gloo|mpi|ucc|record_param_comms)\b|\w+::\w|\w+/\w+/(?:cpu|cuda)\b")
# FSDP brackets every module that it manages: `FSDP::pre_forward (encoder.block.3)` ... `FSDP::post_forward (...)`.
_HOOK = re.compile(r"FSDP::(pre|post)_(forward|backward) \((.+)\)$")


def level_of_operator(name: str) -> Level:
    """Of a range that the framework itself opened for an operator."""
    return Level.RUNTIME if name.startswith(_RUNTIME) else Level.OPERATOR


def level_of_annotation(name: str) -> Level:
    """Of a range that a user, a library or an optimiser opened."""
    if _STEP.match(name):
        return Level.STEP
    if name.startswith(_RUNTIME):
        return Level.RUNTIME
    return Level.OPERATOR if _OPERATOR.match(name) else Level.LAYER


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
    return stacked([ranges, more])
