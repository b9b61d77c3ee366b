"""ONNX Runtime's profile -> spans: its JSON events and our steps enter, rows of a EventLog leave.

Layers follow from the nodes' names (model.py writes `<layer>/<operator>`), of which the optimiser keeps enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from profkit.capture.event_log import EventLog
from profkit.capture.schema import COPY, EXACT, FORWARD, INFERRED, Level
from profkit.errors import CaptureError
from profkit.ops.networks.layer import CONV2D, DENSE
from profkit.ops.networks.network import Network

NODE_SUFFIX = "_kernel_time"
ProfileEvent = Mapping[str, Any]
Limits = tuple[int, int]


class TimedStep(NamedTuple):
    """One step: our clock around it, and the CPU time of the session's threads meanwhile."""

    start_ns: int
    end_ns: int
    pool_cpu_ns: int


class SessionProfile:
    """The events of a file; `origin_ns` is their time 0 on our clock."""

    def __init__(self, network: Network, events: Sequence[ProfileEvent], origin_ns: int, shows_memory: bool) -> None:
        self._network = network
        self._layers = [layer.name for layer in network.layers]
        self._origin_ns = origin_ns
        self._shows_memory = shows_memory
        complete = sorted((event for event in events if event.get("ph") == "X"), key=lambda event: int(event["ts"]))
        self._runs = [event for event in complete if event["name"] == "model_run"]
        self._executions = [event for event in complete if event["name"].endswith("Executor::Execute")]
        self._nodes = [event for event in complete if event["cat"] == "Node" and event["name"].endswith(NODE_SUFFIX)]
        self._set_up = [event for event in complete if event["name"] == "session_initialization"]

    def add_to(self, log: EventLog, runs: Sequence[TimedStep]) -> None:
        """The last runs of the profile are the steps that count."""
        if len(self._runs) < len(runs) or not self._nodes:
            raise CaptureError(
                f"ONNX Runtime's profile has {len(self._runs)} runs and {len(self._nodes)} nodes, but {len(runs)} runs "
                "were recorded: it has lost events; record fewer steps"
            )
        nodes: list[ProfileEvent] = []
        peaks: list[int] = []
        for run, event in zip(runs, self._runs[-len(runs) :]):
            log.step(run.start_ns, run.end_ns)
            found = self._add_run(log, run, event)
            nodes += found
            peaks += most_taken(found)
        log.facts["session_initialization_ns"] = sum(int(event["dur"]) for event in self._set_up) * 1000
        log.facts["main_thread_waited_ns"] = _waits(nodes)
        if self._shows_memory and peaks:
            log.facts["peak_bytes"] = max(peaks)

    def _add_run(self, log: EventLog, run: TimedStep, event: ProfileEvent) -> list[ProfileEvent]:
        thread = log.thread(int(event["tid"]), "main")
        limits = self._times(event, (run.start_ns, run.end_ns))
        about: dict[str, Any] = {"type": "run", "pool_cpu_ns": run.pool_cpu_ns, "quality": EXACT}
        log.range(Level.RUNTIME, "model_run", *limits, thread, **about)
        for execution in _inside(event, self._executions):
            limits = self._times(execution, limits)
            log.range(Level.RUNTIME, execution["name"], *limits, thread, type="executor", quality=EXACT)
        nodes = _inside(event, self._nodes)
        layers = layers_of([_name(node) for node in nodes], [_type(node) for node in nodes], self._layers)
        apart = {layer for layer, node in zip(layers, nodes) if _type(node) == "Relu"}
        for node, layer in zip(nodes, layers):
            self._add_node(log, node, layer, layer in apart, limits)
        return nodes

    def _add_node(
        self, log: EventLog, node: ProfileEvent, layer: str | None, has_relu_apart: bool, limits: Limits
    ) -> None:
        arguments, kind, name = node["args"], _type(node), _name(node)
        is_reorder = kind.startswith("Reorder")
        layout = " NCHWc" if "_nchwc" in name else ""
        memory: dict[str, Any] = {}
        if self._shows_memory:
            memory["requested_bytes"] = _number(arguments, "mem_requested_in_use_delta")
            memory["live_bytes"] = _number(arguments, "mem_bytes_requested_in_use")
        log.range(
            Level.OPERATOR,
            name,
            *self._times(node, limits),
            log.thread(int(node["tid"]), "main"),
            type=kind,
            layer=layer,
            phase=COPY if is_reorder else FORWARD,
            implementation=f"{arguments.get('provider', 'unknown')}{layout}",
            shapes=_shapes(arguments.get("input_type_shape", ())),
            fused=self._fused(kind, layer, has_relu_apart),
            output_bytes=_number(arguments, "output_size"),
            quality=INFERRED if is_reorder else EXACT,
            **memory,
        )

    def _fused(self, kind: str, name: str | None, has_relu_apart: bool) -> str | None:
        """ONNX's Conv and Gemm add the bias; ReLU is inside when its own node is gone."""
        if name is None or kind not in ("Conv", "FusedConv", "Gemm", "FusedGemm"):
            return None
        layer = self._network.layer(name)
        if layer.kind not in (CONV2D, DENSE):
            return None
        relu = ["Relu"] if layer.activation == "relu" and not has_relu_apart else []
        return "+".join([kind.removeprefix("Fused"), "Bias", *relu])

    def _times(self, event: ProfileEvent, limits: Limits) -> Limits:
        """On our clock. Times are cut to whole microseconds, so a child may stick out of its parent: that is cut."""
        start = self._origin_ns + int(event["ts"]) * 1000
        end = start + int(event["dur"]) * 1000
        start = min(max(start, limits[0]), limits[1])
        return start, min(max(end, start), limits[1])


def layers_of(names: Sequence[str], types: Sequence[str], layers: Sequence[str]) -> list[str | None]:
    """The layer of every node, in the order in which they ran.

    Fused nodes are called `fused <node>` or `<value>_nchwc`. Reorder nodes have no name of their own: one that
    leaves the blocked layout belongs to the node before it, one that enters it to the node after it.
    """
    found = [_named_layer(name, layers) for name in names]
    for place, kind in enumerate(types):
        if found[place] is None and kind.startswith("Reorder"):
            others = found[place + 1 :] if kind == "ReorderInput" else found[:place][::-1]
            found[place] = next((layer for layer in others if layer is not None), None)
    return found


def _named_layer(name: str, layers: Sequence[str]) -> str | None:
    bare = re.sub(r"^fused ", "", name)
    fitting = [layer for layer in layers if bare == layer or bare.startswith((f"{layer}/", f"{layer}_"))]
    return max(fitting, key=len, default=None)


def most_taken(nodes: Sequence[ProfileEvent]) -> list[int]:
    """The most bytes that a run had asked for above what the session held when it began; nothing if not told.

    A node's number is that of its end, when its inputs are not given back yet. The profile's own `mem_in_use_peak` is
    no peak of a run: it counts weights, whole blocks of the arena, and from the session's beginning on.
    """
    held = [_number(node["args"], "mem_bytes_requested_in_use") for node in nodes]
    first = _number(nodes[0]["args"], "mem_requested_in_use_delta") if nodes else None
    known = [each for each in held if each is not None]
    if first is None or len(known) < len(held):
        return []
    return [max(known) - (known[0] - first)]


def _inside(outer: ProfileEvent, events: Sequence[ProfileEvent]) -> list[ProfileEvent]:
    first, last = int(outer["ts"]), int(outer["ts"]) + int(outer["dur"])
    return [event for event in events if first <= int(event["ts"]) <= last]


def _waits(nodes: Sequence[ProfileEvent]) -> dict[str, int]:
    """How long the calling thread waited for the pool at the end of each node, mean over the steps."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        statistics = node["args"].get("thread_scheduling_stats")
        if isinstance(statistics, dict):  # an empty text where there is no pool
            found.setdefault(_name(node), []).append(int(statistics["main_thread"]["Wait"]) * 1000)
    return {name: sum(each) // len(each) for name, each in found.items()}


def _name(event: ProfileEvent) -> str:
    """The node's name after the optimiser's work."""
    return str(event["name"]).removesuffix(NODE_SUFFIX)


def _type(event: ProfileEvent) -> str:
    return str(event["args"].get("op_name", "unknown"))


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    """Numbers are text in the profile."""
    return int(arguments[name]) if name in arguments else None


def _shapes(typed: Sequence[Mapping[str, Sequence[int]]]) -> str:
    return ", ".join("x".join(map(str, shape)) for each in typed for shape in each.values())
