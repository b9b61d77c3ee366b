"""A network recorded by its source in this process, and what every recording must satisfy."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, Capture, Level
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Network
from tests.capture.account_checks import assert_adds_up
from tests.frameworks.networks.network_checks import built_here

Row = dict[str, Any]


def recorded(
    framework: str, network: Network, name: str, conditions: NetworkConditions, steps: int = 2, warm_up: int = 1
) -> Capture:
    """So many steps under a pass of the framework's source."""
    trial = built_here(load_builder(framework), network, conditions)
    run = trial.built.train if conditions.is_training else trial.built.infer
    watched = SourceSubject(network, trial.built, conditions, lambda: run(trial.batch))
    for _ in range(warm_up):
        watched.step()
    capture = load_source(framework).record(watched, name, steps)
    assert_adds_up(capture)
    return capture


def rows(capture: Capture, level: Level = Level.OPERATOR, step: int | None = None) -> list[Row]:
    """Ranges of a level as dicts, in order of their start."""
    ranges = capture.ranges
    columns: dict[str, list[Any]] = {item.name: ranges[item.name].tolist() for item in fields(ranges)}
    columns |= {name: capture.texts(ranges[name]) for name in ranges.texts()}
    columns["row"] = list(range(len(ranges)))
    found = [dict(zip(columns, values)) for values in zip(*columns.values())]
    chosen = [row for row in found if row["level"] == level and step in (None, row["step"])]
    return sorted(chosen, key=lambda row: (row["start_ns"], -row["end_ns"]))


def assert_nested(capture: Capture, steps: int) -> None:
    """Spans lie in their steps and parents."""
    spans, begin, end = capture.ranges, capture.steps["start_ns"], capture.steps["end_ns"]
    assert len(begin) == steps
    assert (begin[1:] >= end[:-1]).all()
    assert (spans["step"] != NONE).all()
    assert (spans["start_ns"] <= spans["end_ns"]).all()
    assert (spans["start_ns"] >= begin[spans["step"]]).all()
    assert (spans["end_ns"] <= end[spans["step"]]).all()
    has_parent = spans["parent"] != NONE
    parents = spans["parent"][has_parent]
    assert (spans["start_ns"][has_parent] >= spans["start_ns"][parents]).all()
    assert (spans["end_ns"][has_parent] <= spans["end_ns"][parents]).all()


def assert_sound(capture: Capture, steps: int) -> None:
    """Siblings do not overlap either, so operators and remainder make up the steps."""
    assert_adds_up(capture)
    assert_nested(capture, steps)
    # What is shorter than a source's clock counts has no length and overlaps nothing.
    operators = [row for row in rows(capture) if row["end_ns"] > row["start_ns"]]
    assert all(before["end_ns"] <= after["start_ns"] for before, after in pairwise(operators))
    inside = np.bincount([row["step"] for row in operators], [row["end_ns"] - row["start_ns"] for row in operators])
    assert (inside <= capture.steps["end_ns"] - capture.steps["start_ns"]).all()
    assert (inside > 0).all()
