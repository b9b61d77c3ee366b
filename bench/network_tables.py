"""The CIFAR-10 network in every framework that is there: time of a step by kind of operator, inference and training.

Run: python bench/network_tables.py [framework ...] > docs/measured/networks.md   (about 20 s per framework)
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from measured_page import page_head

import profkit

FRAMEWORKS = ("tensorflow", "torch", "keras", "jax", "onnxruntime", "native", "numpy", "theano", "caffe")
INFERENCE_ONLY = ("onnxruntime", "caffe")
KINDS = ("conv2d", "lrn", "pool", "matmul")
NETWORK = profkit.Cifar10(crop=24, batch=128)


def main(words: Sequence[str]) -> int:
    """Print a table for inference and one for training; exit 1 when a framework could not be run."""
    print(page_head("cifar10 in the frameworks that were there", "python bench/network_tables.py"))
    print("Milliseconds per step of batch 128, crop 24, synthetic images. *step*: median, nothing recorded; the other")
    print("columns: own time by kind in recorded steps (mean of 10); *no operator*: dispatch, framework and idle time.")
    failed = False
    for title, is_training in (("Inference", False), ("Training", True)):
        print(
            f"\n## {title}\n\n| framework | step | first step | {' | '.join(KINDS)} | other | no operator | peak MiB |"
        )
        print("|---" * (len(KINDS) + 6) + "|")
        for framework in words or FRAMEWORKS:
            if is_training and framework in INFERENCE_ONLY:
                continue
            print(f"{title}: {framework}", file=sys.stderr)
            profile = profkit.profile_network(NETWORK, framework, is_training=is_training)
            if profile.capture.status == "ok":
                print(line(profile), flush=True)
            else:
                failed = True
                print(profile, file=sys.stderr)
    return int(failed)


def line(profile: profkit.NetworkProfile) -> str:
    """A framework's row."""
    capture, usage = profile.capture, profile.usage("kind")
    steps = usage.steps or 1
    own = {row.name: row.exclusive_ns / steps for row in usage.rows}
    times = [statistics.median(capture.step_ns), capture.first_step_ns, *(own.pop(kind, 0.0) for kind in KINDS)]
    times += [sum(own.values()), usage.remainder_ns / steps]
    peak = "" if usage.total_peak_bytes is None else f"{usage.total_peak_bytes / 2**20:.1f}"
    versions = capture.versions
    version = versions.get("version") or versions.get(capture.framework) or versions.get("profkit", "")
    name = " ".join(filter(None, (capture.framework, version, f"({capture.mode})")))
    return f"| {name} | {' | '.join('' if ns is None else f'{ns / 1e6:.1f}' for ns in times)} | {peak} |"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
