"""GPU attribution the slow and obvious way: every rule of docs/device-traces.md asked anew for each nanosecond."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

from profkit.attribution.kernels.names import parse_kernel
from profkit.capture.schema import NONE, ActivityKind, Capture, Level

WAITING = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMemcpy")


def rows_of(table: Any) -> list[dict[str, int]]:
    """A table as plain dictionaries."""
    names = [item.name for item in fields(table)]
    return [dict(zip(names, map(int, values))) for values in zip(*(table[name].tolist() for name in names))]


class SlowTrace:
    """A trace whose links are found again, by definition."""

    def __init__(self, trace: Capture) -> None:
        self.trace = trace
        self.ranges, self.calls, self.activities = (
            rows_of(table) for table in (trace.ranges, trace.calls, trace.activities)
        )

    def innermost(self, table: list[dict[str, int]], thread: int, moment: int) -> int:
        """Of the intervals of a thread that hold this moment the one that began last."""
        found = NONE
        for number, row in enumerate(table):
            if row["thread"] == thread and row["start_ns"] <= moment < row["end_ns"]:
                found = number
        return found

    def call_of(self, activity: dict[str, int]) -> int:
        """The first call with this correlation in this process."""
        for number, call in enumerate(self.calls):
            is_same = activity["correlation"] == call["correlation"] != NONE
            if is_same and self.trace.threads.process[call["thread"]] == activity["process"]:
                return number
        return NONE

    def range_of(self, activity: dict[str, int]) -> int:
        """The innermost range on the launching thread at launch."""
        call = self.call_of(activity)
        if call == NONE:
            return NONE
        return self.innermost(self.ranges, self.calls[call]["thread"], self.calls[call]["start_ns"])

    def part_of(self, activity: dict[str, int]) -> str:
        """What an activity's time is."""
        if activity["kind"] != ActivityKind.KERNEL:
            return "copy_ns"
        return "auxiliary_ns" if parse_kernel(self.trace.text(activity["name"])).is_auxiliary else "kernel_ns"

    def rank_of(self, activity: dict[str, int]) -> int:
        """Who owns a moment that several share: the lowest."""
        is_collective = self.trace.text(activity["name"]).startswith("nccl")
        kind = "collective" if is_collective and self.part_of(activity) == "kernel_ns" else self.part_of(activity)
        return ("kernel_ns", "auxiliary_ns", "collective", "copy_ns").index(kind)

    def host(self, thread: int, moment: int) -> tuple[str, int]:
        """What a thread does, and in which range."""
        place = self.innermost(self.ranges, thread, moment)
        call = self.innermost(self.calls, thread, moment)
        if place == NONE:
            return "outside_ns", NONE
        if call == NONE:
            return "dispatch_ns", place
        return "sync_ns" if self.trace.text(self.calls[call]["name"]) in WAITING else "call_ns", place

    def moment(self, device: int, moment: int) -> tuple[str, int]:
        """What a GPU's nanosecond goes into, and the range that owns it."""
        mine = [row for row in self.activities if row["device"] == device]
        running = [row for row in mine if row["start_ns"] <= moment < row["end_ns"]]
        if running:
            owner = min(running, key=lambda row: (self.rank_of(row), mine.index(row)))
            return self.part_of(owner), self.range_of(owner)
        coming = [row for row in mine if row["start_ns"] > moment]
        call = self.call_of(coming[0] if coming else mine[-1])
        if call == NONE:
            return "unknown_ns", NONE
        if coming and moment >= self.calls[call]["end_ns"]:
            return "queue_ns", self.range_of(coming[0])
        return self.host(self.calls[call]["thread"], moment)

    def operator_parts(self) -> Counter[tuple[str, str]]:
        """Nanoseconds by operator (empty: none) and part, of all GPUs together."""
        found: Counter[tuple[str, str]] = Counter()
        for device in {row["device"] for row in self.activities}:
            for moment in range(self.trace.start_ns, self.trace.end_ns):
                part, place = self.moment(device, moment)
                is_operator = place != NONE and self.ranges[place]["level"] != Level.STEP
                found[self.trace.text(self.ranges[place]["name"]) if is_operator else "", part] += 1
        return found
