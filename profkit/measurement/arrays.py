"""The files through which arrays pass between parent and workers: where they lie and when they go."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from profkit.ops.spec import Spec


def result_path(folder: str, key: str) -> str:
    """Where a worker leaves its result."""
    return os.path.join(folder, "result." + key.replace("/", ".") + ".npy")


def array_folder(spec: Spec) -> tempfile.TemporaryDirectory[str]:
    """A folder for inputs and results: in memory when there is room for two results beside the inputs."""
    shared_memory = Path("/dev/shm")
    prefix = f"profkit-{os.getpid()}-"
    if not shared_memory.is_dir() or shutil.disk_usage(shared_memory).free < 4 * spec.min_bytes():
        return tempfile.TemporaryDirectory(prefix=prefix)
    remove_leftovers(shared_memory)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=shared_memory)


def remove_leftovers(place: Path) -> None:
    """Take away what a killed run could not; the hour spares runs whose process is hidden from this container."""
    for folder in place.glob("profkit-*-*"):
        pid = folder.name.split("-")[1]
        with contextlib.suppress(OSError):
            is_old = time.time() - folder.stat().st_mtime > 3600
            if is_old and pid.isdigit() and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(folder, ignore_errors=True)
