"""The memory of an eager run: events of TensorFlow's BFC allocator, given to the operator in which they happened."""

from __future__ import annotations

from dataclasses import dataclass, field

from profkit.capture.recording import NONE, Recording, SpanLog
from profkit.capture.sources import MEMORY, Watched
from profkit.capture.sources.tensorflow_eager import Call, add_call, profile_calls
from profkit.capture.sources.tensorflow_names import kernel_of
from profkit.capture.sources.tensorflow_pool import line_of
from profkit.capture.sources.tensorflow_profile import STEP, Profile
from profkit.capture.sources.xplane import Event
from profkit.errors import CaptureError

_TAKEN, _GIVEN = "MemoryAllocation", "MemoryDeallocation"
MEMORY_NOTE = "memory: what each operator allocated in a step; weights and the batch were there before"


@dataclass
class _Bytes:
    """Of one operator."""

    requested: int = 0
    temporary: int = 0
    live: int = 0
    peak: int = 0
    in_use: int | None = None
    implementation: str | None = None
    blocks: dict[int, int] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        size = int(event.stats["requested_bytes"])
        self.requested += size
        self.live += size
        self.peak = max(self.peak, self.live)
        self.blocks[event.stats["addr"]] = size
        self.implementation = kernel_of(str(event.stats.get("tf_op", ""))).implementation or self.implementation

    def give(self, event: Event) -> None:
        size = self.blocks.pop(event.stats["addr"], 0)
        self.temporary += size
        self.live -= size


def record_eager_memory(watched: Watched, steps: int) -> Recording:
    """Operators with their bytes."""
    log = SpanLog("tensorflow", "xplane", MEMORY)
    profile, calls = profile_calls(watched, steps, log)
    changes = [event for event in profile.events if event.name in {_TAKEN, _GIVEN}]
    if not changes:
        raise CaptureError(
            "TensorFlow's allocator reported nothing: TF_CPU_ALLOCATOR_USE_BFC=1 must be set before it is imported"
        )
    owners = _owners(profile, calls, changes)
    amounts = [_Bytes() for _ in calls]
    for event, owner in zip(changes, owners):
        if owner != NONE:
            amounts[owner].take(event) if event.name == _TAKEN else amounts[owner].give(event)
            amounts[owner].in_use = int(event.stats["bytes_allocated"])
    rows = [_add(profile, call, amount) for call, amount in zip(calls, amounts)]
    for event, owner in zip(changes, owners):
        size = int(event.stats["requested_bytes"])
        log.allocation(
            rows[owner] if owner != NONE else NONE,
            event.start_ns,
            event.stats["addr"],
            size if event.name == _TAKEN else -size,
        )
    log.facts.update(
        peak_bytes=_most_live(profile),
        allocator=str(changes[0].stats.get("allocator_name", "")),
        notes=[MEMORY_NOTE, *log.facts["notes"]],
    )
    return log.finish()


def _add(profile: Profile, call: Call, amount: _Bytes) -> int:
    return add_call(
        profile,
        call,
        requested_bytes=amount.requested,
        temporary_bytes=amount.temporary,
        peak_bytes=amount.peak,
        live_bytes=amount.in_use,
        implementation=amount.implementation,
    )


def _owners(profile: Profile, calls: list[Call], changes: list[Event]) -> list[int]:
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


def _most_live(profile: Profile) -> int:
    """The most bytes live at once of what a step had taken itself."""
    most = live = 0
    blocks: dict[int, int] = {}
    for event in profile.events:
        if event.name == STEP:
            live, blocks = 0, {}
        elif event.name == _TAKEN:
            blocks[event.stats["addr"]] = int(event.stats["requested_bytes"])
            live += blocks[event.stats["addr"]]
            most = max(most, live)
        elif event.name == _GIVEN:
            live -= blocks.pop(event.stats["addr"], 0)
    return most
