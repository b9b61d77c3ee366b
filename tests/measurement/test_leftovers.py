"""What a killed run leaves in shared memory is taken away by a later one, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

from profkit.measurement.arrays import remove_leftovers


def test_only_old_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = 2**22 + 1  # above the largest process id of Linux
    names = {
        f"profkit-{dead}-old": 2.0,
        f"profkit-{dead}-new": 0.0,
        f"profkit-{os.getpid()}-old": 2.0,
        "other-1-x": 2.0,
    }
    for name, hours in names.items():
        folder = tmp_path / name
        folder.mkdir()
        stamp = folder.stat().st_mtime - 3600 * hours
        os.utime(folder, (stamp, stamp))

    remove_leftovers(tmp_path)

    assert {folder.name for folder in tmp_path.iterdir()} == set(names) - {f"profkit-{dead}-old"}
