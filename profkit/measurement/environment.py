"""The environment fingerprint saved with every result: what could change the numbers, read without frameworks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import profkit
from profkit import _core
from profkit.frameworks.machine import cpu_model
from profkit.measurement.cores import container_cpus, usable_cpus
from profkit.measurement.device.clocks import gpu_facts
from profkit.measurement.workers.process import THREAD_VARIABLES

PACKAGES = (
    "numpy",
    "torch",
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "jax",
    "jaxlib",
    "numba",
    "onnxruntime",
    "onnx",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numba-cuda",
    "nvidia-ml-py",
    "nvtx",
)


def fingerprint() -> dict[str, Any]:
    """Hardware, system, limits, load and versions of this moment."""
    return {
        "profkit": profkit.__version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cpus_usable": usable_cpus(),
        "caches": caches(),
        "simd": _core.cpu_features(),
        "build": _core.build_info(),
        "blas": numpy_blas(),
        "packages": installed_packages(),
        "memory_bytes": memory_bytes(),
        "gpus": gpu_facts(),
        "governor": read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_huge_pages": read_text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load": list(os.getloadavg()),
        "container": {"cpus": container_cpus(), "memory": read_text("/sys/fs/cgroup/memory.max")},
        "thread_variables": {
            "inherited": {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")},
            "set_in_workers": "to the cell's threads: " + ", ".join(THREAD_VARIABLES),
        },
    }


def machine_id() -> str:
    """The machine and build of measured peaks, which are measured again on others."""
    features = _core.cpu_features()
    return " | ".join([cpu_model(), f"{len(usable_cpus())} cpus", str(features["simd_active"]), profkit.__version__])


def caches() -> dict[str, str]:
    """Cache sizes as the system names them, e.g. L2 Unified: 512K."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (read_text(folder / name) for name in ("level", "type", "size"))
        found[f"L{level} {kind}"] = size or "unknown"
    return found


def numpy_blas() -> dict[str, Any]:
    """BLAS that NumPy was built with."""
    config: Any = np.show_config(mode="dicts")
    blas: dict[str, Any] = config.get("Build Dependencies", {}).get("blas", {})
    return {name: blas[name] for name in ("name", "version", "openblas configuration") if name in blas}


def installed_packages() -> dict[str, str]:
    """Versions of the frameworks, from their metadata: nothing is imported."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def memory_bytes() -> int | None:
    """Physical memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def free_memory_bytes() -> int | None:
    """What programs can get without swapping, also of what the control group grants; all memory where the system does
    not tell.
    """
    free = memory_bytes()
    for line in (read_text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            free = 1024 * int(line.split()[1])
    granted = [free, *map(_free_in_group, _memory_groups())]
    return min((each for each in granted if each is not None), default=None)


def _memory_groups() -> list[Path]:
    """The control groups, of either version, whose limits hold for this process: its own and those above."""
    groups: list[Path] = []
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup", "memory" if controllers else "")
            own = root / path.lstrip("/")
            groups += [own, *(each for each in own.parents if each == root or root in each.parents)]
    return groups


def _free_in_group(group: Path) -> int | None:
    """Bytes below the group's limit; what the kernel can drop of the files that it read counts as free."""
    for limit, usage, droppable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        words = read_text(group / limit), read_text(group / usage)
        if all(word is not None and word.isdecimal() for word in words):
            stat = dict(line.split() for line in (read_text(group / "memory.stat") or "").splitlines())
            return max(0, int(words[0] or 0) - int(words[1] or 0) + int(stat.get(droppable, 0)))
    return None


def read_text(path: str | Path) -> str | None:
    """A small system file, or None where it does not exist."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
