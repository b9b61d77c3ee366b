"""Which cores a measurement runs on: the usable ones, one hardware thread per core first."""

from __future__ import annotations

import os
from pathlib import Path

from profkit.errors import UsageError


def usable_cpus() -> list[int]:
    """Logical processors that this process may run on, one per physical core before any second hardware thread."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    rank: dict[int, int] = {}
    taken: dict[tuple[str, str], int] = {}
    for cpu in cpus:
        core = physical_core(cpu)
        rank[cpu] = taken.get(core, 0)
        taken[core] = rank[cpu] + 1
    return sorted(cpus, key=lambda cpu: (rank[cpu], cpu))


def physical_core(cpu: int) -> tuple[str, str]:
    """Socket and core of a logical processor; itself where the system does not report them."""
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return (topology / "physical_package_id").read_text(), (topology / "core_id").read_text()
    except OSError:
        return "", str(cpu)


def container_cpus() -> float | None:
    """Processors that the control group grants, or None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def default_threads() -> int:
    """All usable physical cores, bounded by the container's processor limit."""
    cores = len({physical_core(cpu) for cpu in usable_cpus()})
    return max(1, min(cores, int(container_cpus() or cores)))


def cores_for(threads: int) -> list[int]:
    """The processors on which `threads` threads are measured."""
    cpus = usable_cpus()
    if not 1 <= threads <= len(cpus):
        raise UsageError(f"threads {threads}: this process may use 1 to {len(cpus)} processors")
    return cpus[:threads]
