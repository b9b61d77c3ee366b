"""What becomes of a million events, and how fast: op table, Perfetto and Chrome traces, beside torch's profiler.

Run: python bench/trace_export.py > docs/measured/trace_export.md   (needs gcc, nvtx3 headers, profkit[torch])
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measured_page import page_head
from rounds import CaseSamples, interleaved
from tracer_overhead import TracerBench

EVENTS = 1_000_000
TORCH = """
import sys, time, torch
operators, folder = int(sys.argv[1]), sys.argv[2]
x = torch.zeros(1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for _ in range(operators):
        x.add_(1)
begin = time.perf_counter()
profiler.export_chrome_trace(folder + "/torch.json")
print(time.perf_counter() - begin)
begin = time.perf_counter()
profiler.key_averages()
print(time.perf_counter() - begin)
print(len(profiler.events()))
"""


def seconds_of(command: list[str]) -> float:
    """Wall time of a command, start of Python included."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def inside(code: str) -> Callable[[], float]:
    """Seconds that the code itself reports."""
    return lambda: float(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()[-1]
    )


def timed(path: Path, work: str) -> str:
    """A program that opens the capture, then times one piece of work."""
    return f"""
import time
from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.reading import read
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.files import write_chrome, write_perfetto
path = {str(path)!r}
capture = read(path)
begin = time.perf_counter()
{work}
print(time.perf_counter() - begin)
"""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--torch-operators", type=int, default=EVENTS // 5, help="each makes 5 events; 1 M take minutes"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = TracerBench(folder)
        pairs = bench.compiled("nvtx_pairs.c", "-pthread")
        # 1,000 of them are the program's warm-up.
        command = [pairs, "nested", str(EVENTS - 1000), "1"]
        subprocess.run(command, check=True, env=bench.traced(False), stdout=sys.stderr)
        path = folder / "bench.profkit"
        pftrace, json = folder / "out.pftrace", folder / "out.json"
        results = interleaved(
            {
                "read the capture": inside(timed(path, "read(path)")),
                "op table, capture in memory": inside(timed(path, "usage_of(capture, by='name', clock=THREADS)")),
                "op table, from the file": inside(timed(path, "usage_of(read(path), by='name', clock=THREADS)")),
                "Perfetto": inside(timed(path, f"write_perfetto(trace_content(capture), {str(pftrace)!r})")),
                "Chrome JSON": inside(timed(path, f"write_chrome(trace_content(capture), {str(json)!r})")),
                "Chrome JSON, gzip": inside(
                    timed(path, f"write_chrome(trace_content(capture), {str(json)!r} + '.gz')")
                ),
                "command: profkit.report": lambda: seconds_of([sys.executable, "-m", "profkit.report", str(path)]),
            },
            arguments.rounds,
        )
        sizes = {"Perfetto": pftrace.stat().st_size, "Chrome JSON": json.stat().st_size}
        sizes["Chrome JSON, gzip"] = Path(f"{json}.gz").stat().st_size
        print("torch", file=sys.stderr)
        torch = subprocess.run(
            [sys.executable, "-c", TORCH, str(arguments.torch_operators), name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        torch_export, torch_table, torch_events = float(torch[-3]), float(torch[-2]), int(torch[-1])
        torch_size = (folder / "torch.json").stat().st_size
    goals = {
        "op table, from the file": "<= 0.7 s",
        "op table, capture in memory": "<= 0.7 s",
        "Perfetto": "<= 0.5 s, <= 41 B",
        "Chrome JSON": "<= 1.5 s",
    }
    print(page_head("A million events", "python bench/trace_export.py"))
    print(f"Median (least to most) of {arguments.rounds} interleaved rounds; {EVENTS:,} ranges of 60 names, five deep.")
    print("torch ran once.\n")
    print("| what | seconds | bytes per slice | goal |\n|---|---|---|---|")
    for title, result in results.items():
        size = f"{sizes[title] / EVENTS:.1f}" if title in sizes else ""
        print(f"| {title} | {result.spread('.3f')} | {size} | {goals.get(title, '')} |")
    print(f"| torch `key_averages()`, {torch_events:,} events | {CaseSamples((torch_table,)).median:.1f} | | |")
    print(f"| torch `export_chrome_trace`, the same | {torch_export:.2f} | {torch_size / torch_events:.0f} | |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
