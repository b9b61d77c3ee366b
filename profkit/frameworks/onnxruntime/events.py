"""ONNX Runtime's own profile: a second session writes it while it runs the steps, node by node; its JSON becomes spans.

Its clock is CLOCK_REALTIME in whole microseconds. Layers follow from the nodes' names (model.py writes
`<layer>/<operator>`), of which the optimiser keeps enough.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from profkit.capture.event_log import EventLog
from profkit.capture.schema import COPY, EXACT, FORWARD, INFERRED, Capture, Level
from profkit.errors import CaptureError
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.helper_threads import cpu_clock, helper_threads
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.scratch import temporary_folder
from profkit.ops.networks.layer import ACTIVATION, ADD, BATCH_NORM, CONV2D, DENSE, DROPOUT, IMAGES, LAYER_NORM, Layer
from profkit.ops.networks.network import Network

WARM_UP = 2
"""Steps of the new session before those that count: the first one plans the memory of the others."""
GRAIN_NS = 1000
POOL_NOTE = (
    "pool CPU time of a step is read from the clocks of the session's threads, spinning included; nodes have none"
)
MEMORY_NOTE = (
    "memory: a session without memory plan (with one, a run takes one block for all values, and no node allocates "
    "any). Requested is what a node holds at its end, 0 where it reuses the memory of a dead value; "
    "workspace that a node freed inside is not observable"
)
NODE_SUFFIX = "_kernel_time"
ProfileEvent = Mapping[str, Any]
Limits = tuple[int, int]
_PRODUCTS = {"Conv": CONV2D, "FusedConv": CONV2D, "Gemm": DENSE, "FusedGemm": DENSE}
_ADDED_NORM = "SkipLayerNormalization"
"""What the optimiser makes of an addition and the layer normalisation behind it."""


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """Time with the session as it ships, memory without its memory plan."""
    return [Pass("time", (TIME,), note=POOL_NOTE), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    """Run the steps in a session that writes a profile, then read that."""
    log = EventLog("onnxruntime", "onnxruntime", name)
    model = watched.built.model
    usual = model.session
    with temporary_folder("onnxruntime") as folder:
        session = model.new_session(str(Path(folder) / "profile"), plans_memory=name == TIME)
        model.session = session
        try:
            for _ in range(WARM_UP):
                watched.step()
            before = read_clocks()
            runs = _run(watched, steps)
            clock = RealtimeClock(before, read_clocks())
        finally:
            model.session = usual
            path = Path(session.end_profiling())
        events = json.loads(path.read_text(errors="replace"))
    origin_ns = int(session.get_profiling_start_time_ns()) - clock.ahead_ns
    log.about.clock_error_ns = clock.error_ns + GRAIN_NS
    SessionProfile(watched.network, events, origin_ns, shows_memory=name == MEMORY).add_to(log, runs)
    return log.finish()


def _run(watched: SourceSubject, steps: int) -> list[TimedStep]:
    now, pool = time.perf_counter_ns, cpu_clock(helper_threads())
    runs = []
    for _ in range(steps):
        helped = pool()
        begin = now()
        watched.step()
        end = now()
        runs.append(TimedStep(begin, end, pool() - helped))
    return runs


class TimedStep(NamedTuple):
    """One step: our clock around it, and the CPU time of the session's threads meanwhile."""

    start_ns: int
    end_ns: int
    pool_cpu_ns: int


class SessionProfile:
    """The events of a file; `origin_ns` is their time 0 on our clock."""

    def __init__(self, network: Network, events: Sequence[ProfileEvent], origin_ns: int, shows_memory: bool) -> None:
        self._graph = FusedGraph(network)
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
        types = [_type(node) for node in nodes]
        layers = self._graph.begun(layers_of([_name(node) for node in nodes], types, self._layers), types)
        for node, layer, fused in zip(nodes, layers, self._graph.fused(layers, types)):
            self._add_node(log, node, layer, fused, limits)
        return nodes

    def _add_node(
        self, log: EventLog, node: ProfileEvent, layer: str | None, fused: str | None, limits: Limits
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
            fused=fused,
            output_bytes=_number(arguments, "output_size"),
            quality=INFERRED if is_reorder else EXACT,
            **memory,
        )

    def _times(self, event: ProfileEvent, limits: Limits) -> Limits:
        """On our clock. Times are cut to whole microseconds, so a child may stick out of its parent: that is cut."""
        start = self._origin_ns + int(event["ts"]) * 1000
        end = start + int(event["dur"]) * 1000
        start = min(max(start, limits[0]), limits[1])
        return start, min(max(end, start), limits[1])


class FusedGraph:
    """The layers of a network, of which the optimiser may have made one node of several."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._readers: dict[str, list[Layer]] = {}
        for layer in network.layers:
            for source in layer.inputs:
                self._readers.setdefault(source, []).append(layer)

    def begun(self, layers: Sequence[str | None], types: Sequence[str]) -> list[str | None]:
        """The layer with which each node begins: some are named after the last one that they do, some after none."""
        run = set(layers)
        norms = (each.name for each in self._network.layers if each.kind == LAYER_NORM and each.name not in run)
        begins = {
            name: self._product_before(name, _PRODUCTS[kind], run) or name
            for name, kind in zip(layers, types)
            if name is not None and kind in _PRODUCTS
        }
        return [
            next(norms, None) if name is None and kind == _ADDED_NORM else begins.get(name or "", name)
            for name, kind in zip(layers, types)
        ]

    def _product_before(self, name: str, kind: str, run: Collection[str | None]) -> str | None:
        layer = self._network.layer(name)
        if layer.kind == kind:
            return name
        sources = [source for source in layer.inputs if source != IMAGES and source not in run]
        return next(filter(None, (self._product_before(source, kind, run) for source in sources)), None)

    def fused(self, layers: Sequence[str | None], types: Sequence[str]) -> list[str | None]:
        """The operations of each node that does several; those of layers without a node are done by the last product
        that leads to them."""
        run = set(layers)
        relus = {layer for layer, kind in zip(layers, types) if kind == "Relu"}
        done: dict[str, int] = {}
        chains: list[list[Layer]] = []
        for place, (name, kind) in enumerate(zip(layers, types)):
            chains.append(self._chain(name, run) if kind in _PRODUCTS and name else [])
            done.update((layer.name, place) for layer in chains[-1])
        fused = []
        for place, (name, kind) in enumerate(zip(layers, types)):
            parts = self._own_parts(name, kind, relus)
            parts += [_onnx_name(layer) for layer in chains[place] if done[layer.name] == place]
            parts = [part for part in parts if part]
            fused.append("+".join(parts) if len(parts) > 1 else None)
        return fused

    def _own_parts(self, name: str | None, kind: str, relus: Collection[str | None]) -> list[str]:
        """ONNX's Conv and Gemm add the bias; ReLU is inside when its own node is gone."""
        if kind == _ADDED_NORM:
            return ["Add", "LayerNormalization"]
        if name is None or self._network.layer(name).kind != _PRODUCTS.get(kind):
            return []
        layer = self._network.layer(name)
        parts = [kind.removeprefix("Fused")]
        parts += ["Bias"] if f"{name}.b" in layer.parameter_shapes() else []
        return parts + (["Relu"] if layer.activation == "relu" and name not in relus else [])

    def _chain(self, name: str, run: Collection[str | None]) -> list[Layer]:
        """The layers behind one that have no node."""
        chain: list[Layer] = []
        readers = self._readers.get(name, [])
        while len(readers) == 1 and readers[0].name not in run and readers[0].kind in _FOLDED:
            chain.append(readers[0])
            readers = self._readers.get(readers[0].name, [])
        return chain


_FOLDED = {BATCH_NORM: "BatchNormalization", ADD: "Add", ACTIVATION: "", DROPOUT: ""}
"""Layers that the optimiser makes a part of the product before them, or removes."""


def _onnx_name(layer: Layer) -> str:
    """Of a folded layer: HardSigmoid of hard_sigmoid, nothing for dropout."""
    words = str(getattr(layer.spec, "function", "")).split("_")
    return _FOLDED[layer.kind] or "".join(map(str.capitalize, words))


def layers_of(names: Sequence[str], types: Sequence[str], layers: Sequence[str]) -> list[str | None]:
    """The layer of every node, in the order in which they ran.

    Fused nodes are called `fused <node>` or `<value>_nchwc`. Reorder nodes have no distinctive name: one that
    leaves the blocked layout belongs to the node before it, one that enters it to the node after it. The same holds
    for the Reshape nodes around a product of several steps (`gemm_input_reshape`, `gemm_output_reshape`).
    """
    found = [_named_layer(name, layers) for name in names]
    for place, kind in enumerate(types):
        if found[place] is None and (kind.startswith("Reorder") or names[place].startswith("gemm_")):
            is_before = kind == "ReorderInput" or names[place].startswith("gemm_input")
            others = found[place + 1 :] if is_before else found[:place][::-1]
            found[place] = next((layer for layer in others if layer is not None), None)
    return found


def _named_layer(name: str, layers: Sequence[str]) -> str | None:
    bare = re.sub(r"^fused ", "", name)
    fitting = [layer for layer in layers if bare == layer or bare.startswith((f"{layer}/", f"{layer}_"))]
    return max(fitting, key=len, default=None)


def most_taken(nodes: Sequence[ProfileEvent]) -> list[int]:
    """The most bytes that a run requested above those held by the session when it began; None if not reported.

    A node's number is that of its end, before its inputs are freed. The profile's own `mem_in_use_peak` is
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
