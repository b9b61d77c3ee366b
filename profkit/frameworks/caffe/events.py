"""OpenCV's own clock around every layer of a Caffe model, and the memory that it plans for each.

The clock is always on. It says how long a layer ran in the last pass, not when; layers run one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import AGGREGATE, FORWARD, INFERRED, Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.scopes import add_summed_steps
from profkit.frameworks.lazy import cv2
from profkit.frameworks.networks.contract import NetworkConditions

TIME_NOTE = (
    "OpenCV measures how long each layer ran in each step, not when: layers follow one another from the step's "
    "start, in the order in which they run"
)
MEMORY_NOTE = (
    "memory: what OpenCV plans, a block for each layer's result; it is allocated once, shared between layers where "
    "possible, and buffers inside a layer are not visible"
)


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    return [Pass("time", (TIME,)), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    model = watched.built.model
    log = EventLog("caffe", "opencv", name)
    planned = _planned(model)
    log.facts["notes"] = [TIME_NOTE] if name == TIME else []

    def operators() -> list[tuple[dict[str, Any], int]]:
        if name == TIME:
            return [({**about, "quality": AGGREGATE}, ns) for about, ns in _durations(model)]
        return [({**about, **planned[about["name"]], "quality": INFERRED}, ns) for about, ns in _durations(model)]

    add_summed_steps(log, watched, steps, "Net.forward", operators)
    if name == MEMORY:
        weights, blobs = model.net.getMemoryConsumption(model.input_shape)
        flops = model.net.getFLOPS(model.input_shape)
        log.facts.update(held_bytes=int(weights), planned_results_bytes=int(blobs), planned_flops=int(flops))
    return log.finish()


def _durations(model: Any) -> list[tuple[dict[str, Any], int]]:
    """Columns and time of every layer that ran in the last pass. One that is part of another has no separate time."""
    _, ticks = model.net.getPerfProfile()
    per_ns = cv2.getTickFrequency() / 1e9
    durations = dict(
        zip(model.net.getLayerNames(), (round(float(each) / per_ns) for each in ticks.ravel()), strict=True)
    )
    rows: list[tuple[dict[str, Any], int]] = []
    for layer in model.layers:
        if layer.type == "ReLU" and not durations[layer.name] and rows:
            previous = rows[-1][0]
            previous["fused"] = f"{previous['fused'] or previous['type']}+{layer.type}"
            continue
        about = {"name": layer.name, "type": layer.type, "layer": layer.layer, "phase": FORWARD, "fused": None}
        rows.append((about, durations[layer.name]))
    return rows


def _planned(model: Any) -> dict[str, dict[str, int]]:
    net = model.net
    found = {}
    for layer in model.layers:
        _, blobs = net.getMemoryConsumption(net.getLayerId(layer.name), model.input_shape)
        found[layer.name] = {"requested_bytes": int(blobs), "output_bytes": int(blobs)}
    return found
