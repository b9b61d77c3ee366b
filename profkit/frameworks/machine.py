"""Which processor, and which build of the kernels: what measured choices belong to. Standard library only."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any


def cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    for line in text.splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def build_id(core: Any) -> str:
    """Which build of the compiled module: times of another one are not its times."""
    status = Path(core.__file__).stat()
    return f"{status.st_size} bytes of {status.st_mtime_ns}"


@cache
def _cpu(core: Any) -> dict[str, str]:
    features = core.cpu_features()
    caches = "/".join(str(features[f"{level}_bytes"] >> 10) for level in ("l1d", "l2", "l3"))
    return {"cpu": cpu_model(), "caches_kib": caches, "simd": str(features["simd_active"])}


def cpu_fingerprint(core: Any, version: str) -> dict[str, str]:
    """What must be the same for a choice among the CPU kernels' sizes to hold."""
    return {**_cpu(core), "profkit": version, "build": build_id(core)}
