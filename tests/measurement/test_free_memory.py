"""What is free: the machine's, and what the control groups of this process grant, of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.measurement import environment

GIB = 1 << 30


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Stand in for those of the system."""
    found = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 8388608 kB\n"}
    monkeypatch.setattr(environment, "read_text", lambda path: found.get(str(Path(path))))
    return found


def test_without_control_groups_the_machine_says_it(files: dict[str, str]) -> None:
    assert environment.free_memory_bytes() == 8 * GIB


def test_a_group_above_limits_as_well(files: dict[str, str]) -> None:
    files |= {
        "/proc/self/cgroup": "0::/outer/inner",
        "/sys/fs/cgroup/outer/inner/memory.max": "max",
        "/sys/fs/cgroup/outer/inner/memory.current": "5",
        "/sys/fs/cgroup/outer/memory.max": str(4 * GIB),
        "/sys/fs/cgroup/outer/memory.current": str(3 * GIB),
        "/sys/fs/cgroup/outer/memory.stat": f"anon 1\ninactive_file {GIB}",
    }

    assert environment.free_memory_bytes() == 2 * GIB


def test_groups_of_the_first_version_count(files: dict[str, str]) -> None:
    files |= {
        "/proc/self/cgroup": "5:cpu:/a\n4:memory:/a",
        "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(GIB),
        "/sys/fs/cgroup/memory/a/memory.usage_in_bytes": str(3 * GIB),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
    }

    assert environment.free_memory_bytes() == 0
