"""Page faults and swap of one process and of the machine: two readings in, what happened between them out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MINOR_FAULTS, MAJOR_FAULTS = "minor_faults", "major_faults"
SWAP_BYTES, SWAPPED_PAGES = "swap_bytes", "swapped_pages"
_MINOR, _MAJOR = 7, 9
"""Fields of /proc/PID/stat behind the name."""


@dataclass(frozen=True)
class Paging:
    """A reading."""

    minor: int
    """Page faults that needed no disk."""
    major: int
    """And those that did."""
    swap_bytes: int
    """Of the process, in swap now."""
    swapped_pages: int
    """Of the whole machine, in either direction since it started."""

    def since(self, before: Paging) -> dict[str, float]:
        """Facts of the time between."""
        return {
            MINOR_FAULTS: float(self.minor - before.minor),
            MAJOR_FAULTS: float(self.major - before.major),
            SWAP_BYTES: float(max(self.swap_bytes, before.swap_bytes)),
            SWAPPED_PAGES: float(self.swapped_pages - before.swapped_pages),
        }


def read_paging(pid: int, root: Path = Path("/proc")) -> Paging | None:
    """None where the system does not report it, or the process has ended."""
    try:
        values = (root / str(pid) / "stat").read_text().rpartition(")")[2].split()
        status = (root / str(pid) / "status").read_text()
        machine = (root / "vmstat").read_text()
        swap_kib = _number(status, "VmSwap:")
        pages = sum(_number(machine, name) for name in ("pswpin", "pswpout"))
        return Paging(int(values[_MINOR]), int(values[_MAJOR]), 1024 * swap_kib, pages)
    except (OSError, ValueError, IndexError):
        return None


def _number(text: str, name: str) -> int:
    """Behind a name at the begin of a line; 0 where there is no such line: a kernel without swap."""
    found = (line.split()[1] for line in text.splitlines() if line.split()[:1] == [name])
    return int(next(found, "0"))
