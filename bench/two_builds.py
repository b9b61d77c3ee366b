"""The native CPU kernels of two builds against each other in one run: does a change of code or flags slow one down?

Run: python bench/two_builds.py OTHER_PYTHON [--every 8] [--threads 1,2] [--seconds 0.05] [--only conv2d] [--simd avx2]
     [--renamed inside_taps=skip_padding] [--revision 2ae0da7 --output PAGE]

OTHER_PYTHON is the interpreter of an environment with the other build, the old one. Both builds run each kernel on each
sampled shape of bench/kernels.py in turns; a time is the least of several batches of calls. All of it is done twice, in
new processes: where memory and code happen to lie makes the same kernel a tenth faster or slower in one of them. Exit
code 1 when a kernel is slower: below 0.95 of the old speed in both runs, or below 0.98 in the geometric mean of all its
shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

RUNS, TURNS = 2, 3
EACH, MEAN = 0.95, 0.98
SERVE = "--serve"


class BuildProcess:
    """A process with one build; it times what it is asked to."""

    def __init__(self, python: str, simd: str) -> None:
        environment = {**os.environ, **({"PROFKIT_SIMD": simd} if simd else {})}
        self._process = subprocess.Popen(
            [python, __file__, SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **question: Any) -> Any:
        """The answer, as JSON values."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


@dataclass
class KernelCell:
    """One kernel on one shape; speeds are of the new build relative to the old one's, one per run."""

    key: str
    title: str
    speeds: list[float]

    @property
    def is_slower(self) -> bool:
        """In every run."""
        return max(self.speeds) < EACH


def main(argv: Sequence[str]) -> int:
    """Measure, print, judge."""
    if argv == [SERVE]:
        return serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", metavar="OTHER_PYTHON", help="interpreter of the old build's environment")
    parser.add_argument("--every", type=int, default=8, help="take every n-th shape of each section")
    parser.add_argument("--threads", default="1,2", help="as 1,2")
    parser.add_argument("--seconds", type=float, default=0.05, help="per build, kernel, shape and turn")
    parser.add_argument("--only", default="", help="keys or shapes that contain this")
    parser.add_argument("--simd", default="", help="another instruction set than the best")
    parser.add_argument("--renamed", action="append", default=[], help="OLD=NEW, a kernel that had another name")
    parser.add_argument("--revision", default="an older revision", help="of the old build, for the page")
    parser.add_argument("--output", type=Path, help="write the page there, too")
    options = parser.parse_args(argv)
    from kernel_pages.shapes import PAGES, sections
    from measured_page import page_head

    specs = {
        f"{part.name} {name}": spec
        for page in PAGES
        for part in sections(page)
        for name, spec in list(part.shapes.items())[:: options.every]
    }
    runs = [measured(specs, options) for _ in range(RUNS)]
    cells = [KernelCell(key, title, [run[key, title] for run in runs]) for key, title in runs[0]]
    text, is_slower = judged(cells)
    print(text)
    if options.output:
        words = ["OTHER_PYTHON" if word == options.python else word for word in argv]
        head = page_head("Kernels of two builds", " ".join(["python bench/two_builds.py", *words]))
        options.output.write_text(f"{head}\nThe old build is {options.revision}.\n\n{text}\n", encoding="utf-8")
    return int(is_slower)


def measured(specs: Mapping[str, Any], options: argparse.Namespace) -> dict[tuple[str, str], float]:
    """Speeds of the new build relative to the old one's, by kernel and shape; both builds must support them."""
    speeds = {}
    old, new = BuildProcess(options.python, options.simd), BuildProcess(sys.executable, options.simd)
    for name, spec in specs.items():
        about = {
            "params": spec.params(),
            "inputs": list(spec.input_shapes().values()),
            "below": [spec.vocabulary if name == "indices" else None for name in spec.input_shapes()],
            "output": spec.output_shape(),
            "dtype": spec.numpy_dtype.name,
        }
        old_keys = {renamed(key, options.renamed): key for key in old.ask(op=spec.op, **about)}
        keys = old_keys.keys() & new.ask(op=spec.op, **about)
        for key in sorted(key for key in keys if options.only in f"{key} {name}" and "reference" not in key):
            for threads in map(int, options.threads.split(",")):
                question = {**about, "threads": threads, "seconds": options.seconds}
                turns = [(old.ask(key=old_keys[key], **question), new.ask(key=key, **question)) for _ in range(TURNS)]
                old_ns, new_ns = map(min, zip(*turns))
                title = f"{name}, {threads} threads"
                speeds[key, title] = old_ns / new_ns
                print(f"{key:40} {title:40} {old_ns / new_ns:.3f}", file=sys.stderr)
    old.close()
    new.close()
    return speeds


def renamed(key: str, pairs: Sequence[str]) -> str:
    """The new build's key of an old kernel."""
    for pair in pairs:
        before, _, after = pair.partition("=")
        key = key.replace(f"/{before}", f"/{after}")
    return key


def judged(cells: Sequence[KernelCell]) -> tuple[str, bool]:
    """The summary, and whether a kernel is slower."""
    by_key = defaultdict(list)
    for cell in cells:
        by_key[cell.key].append(geometric_mean(cell.speeds))
    lines = ["| kernel | cells | mean speed, new / old | lowest |", "|---|---:|---:|---:|"]
    for key, speeds in by_key.items():
        lines.append(f"| {key} | {len(speeds)} | {geometric_mean(speeds):.3f} | {min(speeds):.3f} |")
    slow = [
        f"- {cell.key} {cell.title}: " + ", ".join(f"{speed:.3f}" for speed in cell.speeds)
        for cell in cells
        if cell.is_slower
    ]
    slow_means = [f"- {key} in the mean" for key, speeds in by_key.items() if geometric_mean(speeds) < MEAN]
    counts = f"{len(slow)} of {len(cells)} cells and {len(slow_means)} of {len(by_key)} means are slower"
    return "\n".join([*lines, "", counts, *slow, *slow_means]), bool(slow or slow_means)


def serve() -> int:
    """Answer questions from standard input; runs under either build, hence only what every `_core` has."""
    import numpy as np

    from profkit import _core

    bound: dict[tuple[str, int], Any] = {}
    for line in sys.stdin:
        question = json.loads(line)
        params = question["params"]
        if "op" in question:
            bound.clear()
            keys = [key for key in _core.kernels(question["op"]) if not _core.supports(key, params)]
            print(json.dumps(keys), flush=True)
            continue
        key, threads = question["key"], question["threads"]
        if (key, threads) not in bound:
            random = np.random.default_rng(0)
            arrays = []
            for shape, below in zip(question["inputs"], question["below"]):
                arrays.append(aligned(shape, question["dtype"] if below is None else np.int64))
                arrays[-1][...] = random.standard_normal(shape) if below is None else random.integers(0, below, shape)
            output = aligned(question["output"], question["dtype"])
            workspace = aligned([_core.workspace_bytes(key, params, threads)], np.uint8)
            bound[key, threads] = _core.bind(key, params, arrays, output, workspace, threads, {}, False)
        print(json.dumps(least_ns(bound[key, threads], question["seconds"])), flush=True)
    return 0


def aligned(shape: Sequence[int], dtype: Any) -> Any:
    """An array that begins a page: placement alone makes calls of some microseconds a fifth slower or faster."""
    import numpy as np

    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 4096, np.uint8)
    begin = -memory.ctypes.data % 4096
    return memory[begin : begin + size].view(dtype).reshape(shape)


def least_ns(call: Any, seconds: float) -> float:
    """The least time of a call among batches of about half a millisecond."""
    begin = time.perf_counter_ns()
    call()
    count = max(1, int(5e5 / max(1, time.perf_counter_ns() - begin)))
    least, until = float("inf"), begin + 1e9 * seconds
    while time.perf_counter_ns() < until or least == float("inf"):
        start = time.perf_counter_ns()
        for _ in range(count):
            call()
        least = min(least, (time.perf_counter_ns() - start) / count)
    return least


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
