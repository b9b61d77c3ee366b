"""The sweep of Study B on this machine: cifar10.conv1 and conv2 at strides 1, 2, 3, 5, all implementations.

Run: python bench/stride_sweep.py > docs/bench/stride_sweep.md   (about 4 minutes; raw samples with --json FILE)
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import profkit
from profkit.ops import find_preset
from profkit.rendering.table import render_text

PRESETS = ("cifar10.conv1", "cifar10.conv2")
STRIDES = (1, 2, 3, 5)


def main() -> int:
    """Print every table; exit 1 when an implementation gave a wrong result or crashed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print("# Strides 1, 2, 3, 5 of the CIFAR-10 convolutions\n")
    print(f"`python bench/stride_sweep.py --budget {arguments.budget:g}`\n")
    bad = 0
    for preset in PRESETS:
        specs = [find_preset("conv2d", preset).replaced(stride=stride) for stride in STRIDES]
        result = profkit.measure(specs, threads=arguments.threads, budget_s=arguments.budget, progress=True)
        print(f"## {preset}\n\n```\n{render_text(result)}\n```\n")
        bad += sum(row.status in ("wrong", "crashed") for cell in result.cells for row in cell.rows)
        if arguments.json:
            arguments.json.with_suffix(f".{preset}.json").write_text(json.dumps(result.to_dict()))
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
