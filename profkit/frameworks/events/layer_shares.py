"""How much of a capture's operator time belongs to layers, and what does not: facts for its reader."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.capture.schema import BACKWARD, EXACT, FORWARD, INFERRED, NONE, Capture, Level


def layer_facts(capture: Capture) -> dict[str, Any]:
    """As they go into the facts of a capture."""
    return {"mapped": mapped_shares(capture), "without_layer": without_layer(capture)}


def mapped_shares(capture: Capture) -> dict[str, dict[str, float]]:
    """By phase: which share of the operators' time has a layer by name (exact), by inference, or none."""
    shares: dict[str, dict[str, float]] = {}
    texts = (capture.texts(capture.ranges[column]) for column in ("phase", "layer", "quality"))
    rows = zip(*texts, *_operator_times(capture))
    for phase, layer, quality, is_operator, duration in rows:
        if is_operator and phase in {FORWARD, BACKWARD}:
            found = shares.setdefault(phase, {EXACT: 0.0, INFERRED: 0.0, "none": 0.0})
            found["none" if layer is None else INFERRED if quality == INFERRED else EXACT] += duration
    for found in shares.values():
        total = sum(found.values()) or 1.0
        found.update({name: value / total for name, value in found.items()})
    return shares


def without_layer(capture: Capture) -> list[dict[str, Any]]:
    """The operators that belong to no layer, the longest first: the loss, and what could not be placed."""
    totals: dict[tuple[str, str, str], int] = {}
    texts = (capture.texts(capture.ranges[column]) for column in ("name", "type", "phase"))
    rows = zip(*texts, capture.texts(capture.ranges.layer), *_operator_times(capture))
    for name, kind, phase, layer, is_operator, duration in rows:
        if is_operator and layer is None:
            key = (name or "", kind or "", phase or "")
            totals[key] = totals.get(key, 0) + duration
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return [{"name": name, "type": kind, "phase": phase, "ns": ns} for (name, kind, phase), ns in ordered]


def _operator_times(capture: Capture) -> tuple[list[bool], list[int]]:
    """Which spans are operators within steps, or parts of them on other threads; and their times without insides."""
    spans = capture.ranges
    is_part = (spans["level"] == Level.PRIMITIVE) & (spans["owner"] != NONE)
    is_operator = ((spans["level"] == Level.OPERATOR) | is_part) & (spans["step"] != NONE)
    own = spans["end_ns"] - spans["start_ns"]
    is_inner = is_operator & (spans["parent"] != NONE)
    inside = np.zeros_like(own)
    np.add.at(inside, spans["parent"][is_inner], own[is_inner])
    return is_operator.tolist(), (own - inside).tolist()
