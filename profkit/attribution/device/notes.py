"""The notes below a GPU trace's table: a trace and its segments in, sentences out."""

from __future__ import annotations

import numpy as np

from profkit.attribution.account import DeviceShares
from profkit.attribution.device.memory import GroupMemory
from profkit.attribution.grouping import BATCHED, Groups
from profkit.capture.schema import NONE, Capture

_LARGEST_POOLS = 4  # have a note each


def notes_of(shares: DeviceShares, groups: Groups, by: str) -> tuple[str, ...]:
    """Each is a sentence without a full stop."""
    capture = shares.capture
    if not shares.lanes.is_of_devices:
        return ("no GPU activity was recorded: all times are of the host's threads",)
    notes = []
    activities = capture.activities
    durations = activities.end_ns - activities.start_ns
    lost = activities.call == NONE
    if lost.any():
        lost_ns = int(durations[lost].sum())
        notes.append(
            f"{np.count_nonzero(lost):,} of {len(lost):,} kernels and copies ({lost_ns / 1e6:.3f} ms) have no recorded "
            "launch: it came before the recording, or was not recorded, so no operator can be named"
        )
    busy_ns = int(shares.ns[shares.activity != NONE].sum())
    hidden_ns = int(durations.sum()) - busy_ns
    if hidden_ns:
        notes.append(f"{hidden_ns / 1e6:.3f} ms of GPU time overlapped other work: counted in GPU, not in own")
    failed = (capture.calls.return_code != NONE) & (capture.calls.return_code != 0)
    if failed.any():
        notes.append(f"{np.count_nonzero(failed):,} CUDA calls returned an error code")
    known = activities.call != NONE
    early = np.count_nonzero(activities.start_ns[known] < capture.calls.start_ns[activities.call[known]])
    if early:
        notes.append(f"{early:,} kernels or copies begin before their launch: the clocks of host and GPU differ")
    if by == "gemm" and groups.names:
        notes.append(_products(capture, groups))
    return tuple(notes)


def memory_notes(capture: Capture, memory: GroupMemory | None) -> list[str]:
    """What the columns of memory leave out."""
    notes = _pool_notes(capture)
    if memory is None:
        return notes
    if memory.unknown_frees:
        notes.append(f"{memory.unknown_frees:,} frees are of GPU memory that was allocated before the recording")
    if memory.lost_frees:
        notes.append(f"{memory.lost_frees:,} allocations were never freed, yet their addresses were used again")
    peaks = capture.facts.get("allocator_peak_bytes")
    for device, sizes in peaks.items() if isinstance(peaks, dict) else ():
        kinds = [f"{size / 2**20:,.1f} MiB {kind}" for kind, size in sizes.items()]
        notes.append(f"GPU {device}: the allocator held at most {' and '.join(kinds)}, earlier allocations included")
    return notes


def _pool_notes(capture: Capture) -> list[str]:
    """Pools keep memory after its allocations are freed: it is then used on the device, but by no allocation."""
    notes = []
    pools = sorted(capture.facts.get("memory_pools", ()), key=lambda pool: -int(pool["reserved_peak_bytes"]))
    for pool in pools[:_LARGEST_POOLS]:
        sizes = [f"{pool[name] / 2**20:,.1f} MiB" for name in ("reserved_peak_bytes", "used_peak_bytes")]
        trims = f", and was trimmed {pool['trimmed']:,} times" if pool["trimmed"] else ""
        notes.append(
            f"GPU {pool['device']}: memory pool {pool['address']:#x} reserved at most {sizes[0]}, of which "
            f"allocations used at most {sizes[1]}{trims}"
        )
    if len(pools) > _LARGEST_POOLS:
        notes.append(f"{len(pools) - _LARGEST_POOLS:,} smaller memory pools are in the JSON file only")
    return notes


def _products(capture: Capture, groups: Groups) -> str:
    """Plain and batched products, as studies of kernels compare them."""
    is_batched = np.array([name.endswith(BATCHED) for name in groups.names], bool)
    durations = capture.activities.end_ns - capture.activities.start_ns
    assert groups.of_activity is not None
    mine = groups.of_activity != NONE
    batched = is_batched[groups.of_activity[mine]]
    parts = [
        f"{np.count_nonzero(batched == kind):,} {name} ({int(durations[mine][batched == kind].sum()) / 1e6:,.3f} ms)"
        for kind, name in ((False, "plain"), (True, "batched"))
        if (batched == kind).any()
    ]
    share = 100.0 * int(durations[mine].sum()) / max(1, int(durations.sum()))
    return f"matrix products take {share:.1f}% of GPU time: {' and '.join(parts)}"
