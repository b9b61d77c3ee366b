"""How long a person waits: `import profkit`, and the default command with every framework installed.

Run: python bench/start_up.py > docs/bench/start_up.md
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

PROBE = "import time; begin = time.perf_counter(); import profkit; print(time.perf_counter() - begin)"
GOAL_IMPORT_MS, GOAL_COMMAND_S = 60.0, 60.0


def main() -> int:
    """Print both times; exit 1 when a goal is missed."""
    imports = [
        1e3 * float(subprocess.run([sys.executable, "-c", PROBE], check=True, capture_output=True, text=True).stdout)
        for _ in range(15)
    ]
    begin = time.monotonic()
    command = [sys.executable, "-m", "profkit.conv", "--stride", "2"]
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = time.monotonic() - begin
    print("# Start-up\n\n`python bench/start_up.py`\n\n| what | measured | goal |\n|---|---|---|")
    import_ms = statistics.median(imports)
    print(f"| `import profkit`, median of {len(imports)} processes | {import_ms:.1f} ms | < {GOAL_IMPORT_MS:g} ms |")
    print(f"| `python -m profkit.conv --stride 2`, all frameworks | {seconds:.1f} s | < {GOAL_COMMAND_S:g} s |")
    print(f"\nWhat it printed:\n\n```\n{table}```")
    return int(import_ms >= GOAL_IMPORT_MS or seconds >= GOAL_COMMAND_S)


if __name__ == "__main__":
    raise SystemExit(main())
