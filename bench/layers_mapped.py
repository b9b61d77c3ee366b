"""How much of a training step's forward and backward time is mapped to layers, in each framework; the rest is named.

Run: python bench/layers_mapped.py > docs/measured/layers_mapped.md
"""

from __future__ import annotations

import sys

from measured_page import page_head

from profkit.capture.schema import BACKWARD, FORWARD
from profkit.frameworks.events.layer_shares import mapped_shares, without_layer
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import Cifar10

RUNS = ("torch:eager", "tensorflow:graph", "keras:tensorflow", "keras:torch", "keras:jax", "jax:jit")
GOAL = 0.99


def main() -> int:
    """Print a row per framework; exit 1 when one misses the goal."""
    network = Cifar10(batch=128, crop=24)
    print(page_head("Time mapped to layers", "python bench/layers_mapped.py"))
    print(f"A training step of cifar10, batch {network.batch}, 10 recorded steps, 2 threads.")
    print(f"Goal: {GOAL:.0%} of forward and of backward time, in torch, tensorflow and keras;")
    print("shares are of operators' time.\n")
    print("| framework | forward | backward | of it inferred | without a layer, longest first |\n|---|---|---|---|---|")
    missed = []
    for name in RUNS:
        framework, mode = name.split(":")
        run = run_network(NetworkRequest(network, framework, mode, threads=2, is_training=True))
        capture = run.capture("time")
        if capture is None:
            print(f"| {name} | {run.status} | | | {run.reason} |")
            missed.append(name)
            continue
        shares = mapped_shares(capture)
        forward, backward = (1 - shares[phase]["none"] for phase in (FORWARD, BACKWARD))
        rest = ", ".join(f"`{row['type'] or row['name']}`" for row in without_layer(capture)[:3])
        print(f"| {name} | {forward:.2%} | {backward:.2%} | {shares[BACKWARD]['inferred']:.2%} | {rest} |", flush=True)
        missed += [name] if min(forward, backward) < GOAL else []
    print(f"\nBelow the goal in a phase: {', '.join(missed) or 'none'}.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
