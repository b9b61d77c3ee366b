"""The memory of an eager run: events of TensorFlow's BFC allocator, given to the operator in which they happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from profkit.capture.event_log import EventLog
from profkit.capture.schema import NONE, Capture
from profkit.errors import CaptureError
from profkit.frameworks.events import MEMORY, SourceSubject
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.tensorflow.eager import EagerCall, add_call, profile_calls
from profkit.frameworks.tensorflow.names import kernel_of
from profkit.frameworks.tensorflow.pool import line_of
from profkit.frameworks.tensorflow.profile import STEP, HostProfile

TAKEN, GIVEN = "MemoryAllocation", "MemoryDeallocation"
MEMORY_NOTE = "memory: what each operator allocated in a step; weights and the batch were there before"


@dataclass
class EagerBytes:
    """What one operator took and gave back."""

    requested: int = 0
    temporary: int = 0
    live: int = 0
    peak: int = 0
    in_use: int | None = None
    implementation: str | None = None
    blocks: dict[int, int] = field(default_factory=dict)

    def columns(self) -> dict[str, int | None]:
        """Of its span."""
        return {
            "requested_bytes": self.requested,
            "temporary_bytes": self.temporary,
            "peak_bytes": self.peak,
            "live_bytes": self.in_use,
        }

    def add(self, event: XplaneEvent) -> None:
        """A change of the allocator's while the operator ran."""
        self._take(event) if event.name == TAKEN else self._give(event)
        self.in_use = int(event.stats["bytes_allocated"])

    def _take(self, event: XplaneEvent) -> None:
        size = int(event.stats["requested_bytes"])
        self.requested += size
        self.live += size
        self.peak = max(self.peak, self.live)
        self.blocks[event.stats["addr"]] = size
        self.implementation = kernel_of(str(event.stats.get("tf_op", ""))).implementation or self.implementation

    def _give(self, event: XplaneEvent) -> None:
        size = self.blocks.pop(event.stats["addr"], 0)
        self.temporary += size
        self.live -= size


def record_eager_memory(watched: SourceSubject, steps: int) -> Capture:
    """Operators with their bytes."""
    log = EventLog("tensorflow", "xplane", MEMORY)
    profile, calls = profile_calls(watched, steps, log)
    changes = allocator_changes(profile)
    owners = _owners(profile, calls, changes)
    amounts = [EagerBytes() for _ in calls]
    for event, owner in zip(changes, owners):
        if owner != NONE:
            amounts[owner].add(event)
    rows = [_add(profile, call, amount) for call, amount in zip(calls, amounts)]
    add_changes(profile, changes, [rows[owner] if owner != NONE else NONE for owner in owners])
    return log.finish()


def allocator_changes(profile: HostProfile) -> list[XplaneEvent]:
    """Everything that was taken and given back in the steps, in order of time."""
    changes = [event for event in profile.events if event.name in {TAKEN, GIVEN}]
    if not changes:
        raise CaptureError(
            "TensorFlow's allocator reported nothing: TF_CPU_ALLOCATOR_USE_BFC=1 must be set before it is imported"
        )
    return changes


def add_changes(profile: HostProfile, changes: Sequence[XplaneEvent], rows: Sequence[int]) -> None:
    """The allocations of a capture, and its peak; `rows` are the spans in which the changes happened, or NONE."""
    log = profile.log
    for event, row in zip(changes, rows):
        size = int(event.stats["requested_bytes"])
        log.memory(row, event.start_ns, event.stats["addr"], size if event.name == TAKEN else -size)
    log.facts.update(
        peak_bytes=most_live(profile),
        allocator=str(changes[0].stats.get("allocator_name", "")),
        notes=[MEMORY_NOTE, *log.facts["notes"]],
    )


def _add(profile: HostProfile, call: EagerCall, amount: EagerBytes) -> int:
    return add_call(profile, call, **amount.columns(), implementation=amount.implementation)


def _owners(profile: HostProfile, calls: list[EagerCall], changes: list[XplaneEvent]) -> list[int]:
    """For each change the operator that was running on the calling thread, or NONE. Eager operators do not nest."""
    owners: list[int] = []
    number = 0
    for event in changes:
        while number < len(calls) and calls[number].event.end_ns < event.start_ns:
            number += 1
        is_inside = (
            number < len(calls) and calls[number].event.start_ns <= event.start_ns and line_of(event) == profile.main
        )
        owners.append(number if is_inside else NONE)
    return owners


def most_live(profile: HostProfile) -> int:
    """The most bytes live at once of what a step had taken itself."""
    most = live = 0
    blocks: dict[int, int] = {}
    for event in profile.events:
        if event.name == STEP:
            live, blocks = 0, {}
        elif event.name == TAKEN:
            blocks[event.stats["addr"]] = int(event.stats["requested_bytes"])
            live += blocks[event.stats["addr"]]
            most = max(most, live)
        elif event.name == GIVEN:
            live -= blocks.pop(event.stats["addr"], 0)
    return most
