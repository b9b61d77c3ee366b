"""OpenCV's own clock around every layer of a Caffe model, and the memory that it plans for each.

The clock is always on. It says how long a layer ran in the last pass, not when; layers run one after another.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import AGGREGATE, EXACT, FORWARD, INFERRED, Capture, Level
from profkit.frameworks.caffe.files import CaffeLayer
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.networks.contract import NetworkConditions

TIME_NOTE = (
    "OpenCV measures how long each layer ran in each step, not when: layers follow one another from the step's "
    "start, in the order in which they run"
)
MEMORY_NOTE = (
    "memory: what OpenCV plans, a block for each layer's result; it is allocated once, shared between layers where "
    "possible, and buffers inside a layer are not visible"
)


class CaffeSource:
    """One process: time, then planned memory."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Nothing is switched on for either."""
        return [Pass("time", (TIME,)), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run the steps and ask after each."""
        model = watched.built.model
        log = EventLog("caffe", "opencv", name)
        planned = _planned(model)
        thread = log.thread(threading.get_native_id(), "main")
        lost_ns = 0
        for _ in range(steps):
            begin = time.perf_counter_ns()
            watched.step()
            end = time.perf_counter_ns()
            step = log.step(begin, end)
            parent = log.range(Level.RUNTIME, "Net.forward", begin, end, thread, step=step, quality=EXACT)
            at = begin
            for about, duration_ns in _durations(model):
                after = at + duration_ns
                lost_ns += max(0, after - end)
                columns = {**about, **(planned[about["name"]] if name == MEMORY else {})}
                log.range(
                    Level.OPERATOR,
                    start_ns=at,
                    end_ns=min(after, end),
                    thread=thread,
                    step=step,
                    parent=parent,
                    quality=AGGREGATE if name == TIME else INFERRED,
                    **columns,
                )
                at = min(after, end)
        log.facts.update(notes=[TIME_NOTE] if name == TIME else [], observes_dispatch=False)
        if name == MEMORY:
            log.facts.update(_planned_sums(model))
        if lost_ns:
            log.facts["notes"].append(f"{lost_ns} ns of layers would end after their step: left out")
        return log.finish()


def _durations(model: Any) -> list[tuple[dict[str, Any], int]]:
    """Columns and time of every layer that ran in the last pass. One that is part of another has no time of its own."""
    cv2 = importlib.import_module("cv2")
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
        rows.append((_about(layer), durations[layer.name]))
    return rows


def _about(layer: CaffeLayer) -> dict[str, Any]:
    return {"name": layer.name, "type": layer.type, "layer": layer.layer, "phase": FORWARD, "fused": None}


def _planned(model: Any) -> dict[str, dict[str, int]]:
    """Bytes of every layer's result."""
    net = model.net
    found = {}
    for layer in model.layers:
        _, blobs = net.getMemoryConsumption(net.getLayerId(layer.name), model.input_shape)
        found[layer.name] = {"requested_bytes": int(blobs), "output_bytes": int(blobs)}
    return found


def _planned_sums(model: Any) -> dict[str, int]:
    weights, blobs = model.net.getMemoryConsumption(model.input_shape)
    flops = model.net.getFLOPS(model.input_shape)
    return {"held_bytes": int(weights), "planned_results_bytes": int(blobs), "planned_flops": int(flops)}


SOURCE = CaffeSource()
