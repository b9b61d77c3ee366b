"""The memory of a Session's graph: what TensorFlow wrote into the StepStats of each run, as spans with bytes.

SOFTWARE_TRACE gives the records of FULL_TRACE, which also starts a profiler in every run. A node's `total_bytes` is
all that it allocated, temporaries within; tfprof adds these a second time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import NONE, Capture, Level
from profkit.frameworks.events import MEMORY
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks
from profkit.frameworks.lazy import tf
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.names import Placer, kernel_of

SOURCE = "stepstats"
_RESOURCE = 20
"""TensorFlow's number of the type of handles, which represent a variable and are not its memory."""
_LABEL = re.compile(r"(?:\[[^]]*\] ?)*(?P<node>\S+) = (?P<kernel>\w+)\(")
MEMORY_NOTE = (
    "memory: what each operator allocated in a step; weights and the batch were there before. Allocations are ordered "
    "by TensorFlow's microseconds: the peak is the largest that this order allows"
)
ROUNDED_NOTE = (
    "the BFC allocator (TF_CPU_ALLOCATOR_USE_BFC=1) reports allocated sizes, rounded up, instead of "
    "requested ones: bytes are larger than those of the default allocator"
)


class RawMetadata:
    """Takes the place of a RunMetadata message and keeps its bytes: reading them is not part of the step."""

    def __init__(self) -> None:
        self.data = b""

    def ParseFromString(self, data: bytes) -> int:  # noqa: N802 - protobuf's name, called by Session.run
        self.data = bytes(data)
        return len(self.data)


@dataclass(frozen=True)
class StepStatsContext:
    """What is needed to understand StepStats."""

    clock: RealtimeClock
    place: Placer
    graph: GraphFacts


def record_step_stats(
    framework: str, session: Any, step: Callable[[], Any], steps: int, place: Placer, graph: GraphFacts
) -> Capture:
    """Run the steps traced, after one that is not kept; `step` runs `session` (a SessionNetwork)."""
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
    log = EventLog(framework, SOURCE, MEMORY)
    metadata: list[bytes] = []
    before = read_clocks()
    try:
        for number in range(-1, steps):
            raw = RawMetadata()
            session.run_arguments = {"options": options, "run_metadata": raw}
            begin = time.perf_counter_ns()
            step()
            end = time.perf_counter_ns()
            if number >= 0:
                log.step(begin, end)
                metadata.append(raw.data)
    finally:
        session.run_arguments = {}
    add_step_stats(log, metadata, StepStatsContext(RealtimeClock(before, read_clocks()), place, graph))
    return log.finish()


def add_step_stats(log: EventLog, metadata: Sequence[bytes], reading: StepStatsContext) -> None:
    """Spans and facts of steps, each of which left a serialized RunMetadata."""
    log.about.clock_error_ns = reading.clock.error_ns
    thread = log.thread(NONE, "executor", "Session")
    peak = 0
    allocators: set[str] = set()
    for number, data in enumerate(metadata):
        message = tf.compat.v1.RunMetadata.FromString(data)
        nodes = [node for device in message.step_stats.dev_stats for node in device.node_stats]
        changes = []
        for node in sorted(nodes, key=lambda each: each.all_start_nanos):
            changes += _add_node(log, number, thread, node, reading)
        peak = max(peak, _most_live(changes))
        allocators |= {used.allocator_name for node in nodes for used in node.memory}
    log.facts.update(peak_bytes=peak, allocator=", ".join(sorted(allocators)), notes=[MEMORY_NOTE])
    if any("bfc" in name for name in allocators):
        log.facts["notes"].append(ROUNDED_NOTE)


def _add_node(log: EventLog, step: int, thread: int, node: Any, reading: StepStatsContext) -> list[tuple[int, int]]:
    """The span of a node; returns the moments and sizes of its allocations."""
    label = _LABEL.match(node.timeline_label)
    kind = kernel_of(label["kernel"] if label else node.node_name)
    where = reading.place(reading.graph.first(node.node_name, kind.type))
    facts = reading.graph.of(node.node_name, kind.type)
    scheduled = node.all_start_nanos - reading.clock.ahead_ns
    start, end = scheduled + node.op_start_rel_nanos, scheduled + node.op_end_rel_nanos
    about = {**kind._asdict(), **where._asdict(), **facts._asdict(), **_memory(node)}
    row = log.range(Level.OPERATOR, node.node_name, start, end, thread, step=step, **about)
    changes = []
    for used in node.memory:
        for record in used.allocation_records:
            moment = record.alloc_micros * 1000 - reading.clock.ahead_ns
            is_inside = record.alloc_bytes > 0 or moment <= end
            log.memory(row if is_inside else NONE, moment, NONE, record.alloc_bytes)
            changes.append((moment, record.alloc_bytes))
    return changes


def _memory(node: Any) -> dict[str, int | None]:
    """A node without allocator records allocated nothing: its outputs, if any, are its inputs' memory."""
    total = sum(used.total_bytes for used in node.memory)
    in_use = sum(used.allocator_bytes_in_use for used in node.memory)
    return {
        "requested_bytes": total,
        "temporary_bytes": total - sum(used.live_bytes for used in node.memory),
        "peak_bytes": sum(used.peak_bytes for used in node.memory),
        "live_bytes": in_use or None,
        "output_bytes": sum(
            each.tensor_description.allocation_description.requested_bytes
            for each in node.output
            if each.tensor_description.dtype != _RESOURCE
        ),
    }


def _most_live(changes: list[tuple[int, int]]) -> int:
    """Within one microsecond allocations count before releases."""
    live = most = 0
    for _, size in sorted(changes, key=lambda change: (change[0], -change[1])):
        live += size
        most = max(most, live)
    return most
