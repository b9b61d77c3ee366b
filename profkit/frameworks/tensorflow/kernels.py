"""The time of a TensorFlow graph (tf.function or Session): one operator per kernel event, with its helpers' work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import Level
from profkit.frameworks.events import TIME
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.names import Placer, kernel_of, split_event
from profkit.frameworks.tensorflow.pool import pool_regions
from profkit.frameworks.tensorflow.profile import HostProfile

SOURCE = "xplane"
CHEAP_NOTE = (
    "operators that TensorFlow calls cheap (Reshape, Shape, constants) are not in its profile: their time is in the "
    "remainder"
)


def new_log(framework: str) -> EventLog:
    """For a pass that measures time."""
    return EventLog(framework, SOURCE, TIME)


def add_kernels(
    profile: HostProfile,
    place: Placer,
    graph: GraphFacts | None,
    values: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[int, int]:
    """Operators, executor and pool of every step; returns the operators' spans by the identity of their events.

    `values` are further columns of operators, by the same identity.
    """
    events = kernel_events(profile)
    operators = {id(event): found for event in events if (found := split_event(event.name))}
    regions = pool_regions(profile.events, events)
    helped: dict[int, int] = {}
    for region in regions:
        if region.owner is not None:
            helped[id(region.owner)] = helped.get(id(region.owner), 0) + region.end_ns - region.start_ns

    def columns(event: XplaneEvent) -> dict[str, Any]:
        node, kernel = operators[id(event)]
        kind = kernel_of(kernel)
        where = place(node)
        facts = graph.of(node, kind.type) if graph else None
        return {
            "name": node,
            "type": kind.type,
            "implementation": kind.implementation,
            "layer": where.layer,
            "phase": where.phase,
            "quality": where.quality,
            **(facts._asdict() if facts else {}),
        }

    profile.log.facts["notes"].append(CHEAP_NOTE)
    profile.add_runtime()
    rows: dict[int, int] = {}
    for event in events:
        about = {**columns(event), **((values or {}).get(id(event)) or {})}
        rows[id(event)] = profile.log.range(
            Level.OPERATOR, about.pop("name"), event.start_ns, event.end_ns, profile.thread(event),
            pool_cpu_ns=helped.get(id(event), 0), **about,
        )  # fmt: skip
    profile.add_pool(
        regions, rows, lambda event: {**columns(event), "fused": None, "shapes": None, "output_bytes": None}
    )
    return rows


def kernel_events(profile: HostProfile) -> list[XplaneEvent]:
    """The events that are operators."""
    return [event for event in profile.events if split_event(event.name)]
