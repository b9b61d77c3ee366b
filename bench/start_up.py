"""How long a person waits: `import profkit`, and the default command with every framework installed.

Run: python bench/start_up.py > docs/measured/start_up.md; the README shows the same table, copy it there.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from measured_page import page_head

PROBE = "import time; begin = time.perf_counter(); import profkit; print(time.perf_counter() - begin)"
COMMAND = ("-m", "profkit.conv", "--stride", "2")
PHASES = """
import json, time, profkit
seen = {}
profkit.measure(profkit.Conv2d(stride=2), progress=lambda progress: seen.setdefault(progress.phase, time.monotonic()))
starts = [*seen.values(), time.monotonic()]
print(json.dumps({phase: end - begin for phase, begin, end in zip(seen, starts, starts[1:])}))
"""
MEANINGS = {
    "peaks": "peak arithmetic and bandwidth (remembered after the first time)",
    "start": "starting frameworks, two at a time; first calls, compared with float64",
    "verify": "warm-up and memory of a call, one row after the other",
    "measure": "samples (`--budget`), and one more call of each row, compared again",
}
IMPORTS = 15
GOAL_IMPORT_MS, GOAL_COMMAND_S = 60.0, 40.0


def main() -> int:
    """Print both times and where the command's seconds go; exit 1 when a goal is missed."""
    import_ms = statistics.median(1e3 * float(printed("-c", PROBE)) for _ in range(IMPORTS))
    begin = time.monotonic()
    table = printed(*COMMAND)
    seconds = time.monotonic() - begin
    print(page_head("Start-up", "python bench/start_up.py"))
    print("| what | measured | goal |\n|---|---|---|")
    print(f"| `import profkit`, median of {IMPORTS} processes | {import_ms:.1f} ms | < {GOAL_IMPORT_MS:g} ms |")
    print(f"| `python {' '.join(COMMAND)}`, all frameworks | {seconds:.1f} s | < {GOAL_COMMAND_S:g} s |")
    print("\nWhere the seconds go, in a run of its own (`profkit.measure(profkit.Conv2d(stride=2))`):\n")
    print("| s | what |\n|--:|---|")
    for phase, phase_s in json.loads(printed("-c", PHASES)).items():
        print(f"| {phase_s:.1f} | {MEANINGS[phase]} |")
    print(f"\nWhat the command printed:\n\n```\n{table}```")
    return int(import_ms >= GOAL_IMPORT_MS or seconds >= GOAL_COMMAND_S)


def printed(*words: str) -> str:
    """What this Python prints with these words."""
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
