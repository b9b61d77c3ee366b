"""The first bar of the native kernels: implicit_gemm and blocked against torch on one thread, every preset.

Run: python bench/native_against_torch.py > docs/bench/native_against_torch.md   (about 7 minutes)
"""

from __future__ import annotations

import argparse
import math

import profkit
from profkit.ops import presets_for
from profkit.ops.spec import Spec

KERNELS = {"conv2d": "implicit_gemm", "matmul": "blocked"}


def main() -> int:
    """Print ratios torch time / native time; exit 1 when one lies below 0.5."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=4.0)
    parser.add_argument("--directions", action="store_true", help="measure both gradients of the convolutions too")
    arguments = parser.parse_args()
    below = 0
    print("# Native kernels against torch, one thread\n")
    print("`python bench/native_against_torch.py`. Ratio = torch time / native time (above 1: native is faster);")
    print("torch runs in the spec's own layout. Both results were checked first.\n")
    for op, kernel in KERNELS.items():
        specs = dict(presets_for(op))
        if op == "conv2d" and arguments.directions:
            specs = {
                f"{name} {direction}": spec.replaced(direction=direction)
                for name, spec in specs.items()
                for direction in ("forward", "input-gradient", "weight-gradient")
            }
        ratios = measure_all(op, kernel, specs, arguments.budget)
        below += sum(ratio < 0.5 for ratio in ratios)
        mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
        within = sum(ratio >= 0.5 for ratio in ratios)
        print(f"\nGeometric mean {mean:.2f}, least {min(ratios):.2f}, {within} of {len(ratios)} within 2x.\n")
    return int(below > 0)


def measure_all(op: str, kernel: str, specs: dict[str, Spec], budget_s: float) -> list[float]:
    """One table line per preset; returns the ratios."""
    print(f"## {op}: {kernel}\n")
    print("| preset | torch GFLOP/s | native GFLOP/s | % of peak | ratio | interval |\n|---|---|---|---|---|---|")
    result = profkit.measure(
        list(specs.values()),
        only=[f"{op}/torch/cpu", f"native/cpu/{kernel}"],
        exclude="torch/cpu/*" if op == "conv2d" else (),
        baseline=f"{op}/torch/cpu",
        threads=1,
        budget_s=budget_s,
        progress=True,
    )
    ratios = []
    for name, cell in zip(specs, result.cells):
        native = cell.row(f"{op}/native/cpu/{kernel}")
        torch = cell.row(f"{op}/torch/cpu")
        if native.ratio is None or native.gflops is None or torch.gflops is None:
            raise SystemExit(f"{name}: {native.status} {native.reason} / {torch.status} {torch.reason}")
        ratios.append(native.ratio)
        print(
            f"| {name} | {torch.gflops:.1f} | {native.gflops:.1f} | {native.percent_of_peak:.0f} "
            f"| {native.ratio:.2f} | {interval(native.ratio_low, native.ratio_high)} |"
        )
    return ratios


def interval(low: float | None, high: float | None) -> str:
    """Both ends, or that one round of samples gives none."""
    return "one round only" if low is None or high is None else f"{low:.2f} to {high:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
