"""Audits of honest kernels: every built-in CPU implementation audited again and again; how many are accused?

Run: python bench/audits.py --results DIR   (again after a kill: it goes on where it was)
     python bench/audits.py --results DIR --render > docs/measured/audits.md
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from measured_page import origin, page_head

import profkit
from profkit.capture.atomic_write import atomic_write
from profkit.frameworks.adapter import Implementation
from profkit.measurement.arrays import array_folder, result_path
from profkit.measurement.cell import WARM_UP_CALLS, WARM_UP_NS
from profkit.measurement.checks.audit import (
    ALONE_FACTOR,
    FRESH_FACTOR,
    AuditFinding,
    AuditLog,
    CallTimes,
    audit_finding,
)
from profkit.measurement.checks.auditor import CALLS_OF_PAIR, FEW_VALUES, LONGEST_PAIR_S, Auditor
from profkit.measurement.options import MeasureOptions
from profkit.measurement.sampling import Contender
from profkit.measurement.selection import all_implementations, availability_of
from profkit.measurement.statistics.estimates import middle_mean
from profkit.measurement.workers import protocol
from profkit.measurement.workers.pool import WorkerPool
from profkit.measurement.workers.process import WorkerFailure
from profkit.measurement.workers.requests import ask_one, wait_for_one
from profkit.ops.dtypes import for_file
from profkit.ops.spec import Spec

SPECS: Mapping[str, Spec] = {
    "conv": profkit.Conv2d(batch=8, stride=2),
    "conv, small": profkit.Conv2d(batch=1, in_channels=8, height=8, width=8, out_channels=8, kernel_size=3, padding=1),
    "conv, gradient of x": profkit.Conv2d(batch=4, direction="input-gradient"),
    "conv, gradient of w": profkit.Conv2d(batch=4, direction="weight-gradient"),
    "matmul": profkit.MatMul(256, 256, 256),
    "matmul, small": profkit.MatMul(8, 16, 32),
    "pool": profkit.Pool2d(batch=16),
    "pool, small": profkit.Pool2d(batch=1, channels=2, height=16, width=16),
    "lrn": profkit.LocalResponseNorm(batch=8),
    "bias_relu": profkit.BiasRelu(batch=8),
    "softmax": profkit.Softmax(128, 1000),
}
BASELINES = ("torch", "numpy", "native")
PROCESSES, AUDITS = 2, 25
"""Of each implementation, and how often each process audits it."""
TIMEOUT_S = 120.0


ABOUT = """Every built-in CPU implementation was audited as a candidate is. Four ratios are judged by their lower ends:

- *changing / same*: samples in which some values of the inputs change from call to call, beside samples on the same
  ones; accused above {fresh} times what the baseline's audit shows, by both clocks (the one that says less is shown);
- *changing / shown*: the same samples, by the clock that says less, beside the usual time of their partners; above
  the same;
- *new / same*: single calls on new contents beside calls on the same ones; above {fresh} times, by either clock (the
  one that says more is shown); where activations have fewer than {few} values, each changes by less than 2 % instead;
- *alone / in a row*: single calls on the same contents beside calls in a row; above {alone} times, by both clocks.

*Nearest*: the audit that came nearest to an accusation, and what was allowed then.
"""


def main() -> int:
    """Measure what is missing, or print the page; exit 1 when an honest kernel is accused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder; a file per shape and round, row by row")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="of each implementation [%(default)s]")
    parser.add_argument("--audits", type=int, default=AUDITS, help="in each process [%(default)s]")
    parser.add_argument("--only", action="append", default=[], help="names of shapes")
    parser.add_argument("--implementations", default="", help="part of the key; the baseline is always there")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    if arguments.render:
        return render(arguments.results)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "origin.json").write_text(json.dumps(origin()))
    for run in range(arguments.processes):
        for name in arguments.only or SPECS:
            path = arguments.results / f"{name.replace(' ', '_').replace(',', '')}.{run}.json"
            if path.exists():
                continue
            partial = path.with_suffix(".part")
            found: dict[str, Any] = json.loads(partial.read_text())["rows"] if partial.exists() else {}
            for key, row in audit_all(SPECS[name], arguments, found):
                found[key] = row
                load = os.getloadavg()[0]
                with atomic_write(partial) as stream:
                    stream.write(json.dumps({"shape": name, "load": load, "rows": found}).encode())
                print(f"processes {run + 1}, {name}: {key}, load {load:.1f}", file=sys.stderr, flush=True)
            partial.rename(path)
    return render(arguments.results)


def audit_all(
    spec: Spec, arguments: argparse.Namespace, known: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The audits of every implementation that runs here and is not known, one after the other."""
    options = MeasureOptions(threads=(arguments.threads,), timeout_s=TIMEOUT_S)
    rows = [
        item
        for item in all_implementations(spec.op)
        if item.device == "cpu" and not any(availability_of(item, spec, {})) and not item.key.endswith("/reference")
    ]
    baseline = next(
        (item for name in BASELINES for item in rows if item.framework == name and not item.variant), rows[0]
    )
    inputs = spec.make_inputs()
    with array_folder(spec) as folder:
        for name, array in inputs.items():
            np.save(protocol.input_path(folder, name), for_file(array))
        for item in rows:
            if item.key not in known and (arguments.implementations in item.key or item == baseline):
                row = audited(spec, item, options, arguments.audits, folder)
                yield item.key, {**row, "baseline": baseline.key}


def audited(spec: Spec, item: Implementation, options: MeasureOptions, audits: int, folder: str) -> dict[str, Any]:
    """The calls of one row's audits, each made as in a table, but alone."""
    pool = WorkerPool(options, options.threads[0])
    try:
        worker = pool.start(item, 0)
        wait_for_one(worker)
        request = {
            "do": "prepare",
            "spec": spec.to_dict(),
            "output": "fresh",
            "folder": folder,
            "result_path": result_path(folder, item.key),
        }
        ask_one(worker, TIMEOUT_S, request)
        warm = ask_one(worker, TIMEOUT_S, {"do": "warm_up", "least_calls": WARM_UP_CALLS, "least_ns": WARM_UP_NS})
        call_ns = float(np.median(warm["samples_ns"]))
        if CALLS_OF_PAIR * 1e-9 * call_ns > LONGEST_PAIR_S:
            return {"trouble": "too slow"}
        logs = []
        for _ in range(audits):
            auditor = Auditor(spec, dict, lambda: np.zeros(0), 1.0)
            auditor.folder = folder
            auditor.logs[item.key] = AuditLog()
            while auditor.pairs_left(item.key, 1e-9 * call_ns):
                for _ in auditor.pair(item.key, call_ns, lambda request: ask_one(worker, TIMEOUT_S, request)):
                    raise AssertionError("built-in rows are not checked here")
            timed = Contender(item.key, call_ns)
            turn = {"count": 1, "calls": timed.calls_per_sample, "warm_calls": timed.warm_calls, "flush_bytes": 0}
            for _ in range(auditor.pokes_left(item.key, 1e-9 * call_ns * timed.calls_per_sample)):
                sample = {**auditor.poked_sample(1), **turn, "do": "sample"}
                auditor.take_poked(item.key, ask_one(worker, TIMEOUT_S, sample))
            logs.append(asdict(auditor.logs[item.key]))
        return {"logs": logs}
    except WorkerFailure as failure:
        return {"trouble": f"{failure.status}: {failure.reason}"}
    finally:
        pool.close()


def judged(data: Mapping[str, Any]) -> Iterator[tuple[str, AuditFinding | None]]:
    """Key and finding of every audit beside that of its baseline; None where it could not be audited."""
    rows = {key: [log_of(log) for log in row.get("logs", ())] for key, row in data["rows"].items()}
    for key, row in data["rows"].items():
        if not rows[key]:
            yield key, None
        rivals = rows[row["baseline"]] if row["baseline"] != key else []
        for number, log in enumerate(rows[key]):
            yield key, audit_finding(log, rivals[number] if number < len(rivals) else None)


def log_of(log: Mapping[str, Any]) -> AuditLog:
    """As it was kept. No samples count here: the partners of those on changing contents take their place."""
    fresh, steady, poked = ([CallTimes(**times) for times in log[name]] for name in ("fresh", "steady", "poked"))
    found = AuditLog(fresh, steady, poked)
    if found.poked:
        found.sample_ns = math.exp(float(middle_mean(np.log([times.lead_wall for times in found.poked]))))
    return found


def render(folder: Path) -> int:
    """Print the page; 1 when an honest kernel is accused."""
    measured = json.loads((folder / "origin.json").read_text())
    found: dict[tuple[str, str], list[AuditFinding | None]] = {}
    loads = []
    for path in sorted(folder.glob("*.*.json")):
        data = json.loads(path.read_text())
        loads.append(data["load"])
        for key, finding in judged(data):
            found.setdefault((data["shape"], key), []).append(finding)
    accused = sum(bool(each and each.verdict) for group in found.values() for each in group)
    audits = sum(each is not None for group in found.values() for each in group)
    print(page_head("Audits of honest kernels", "python bench/audits.py --results DIR", measured))
    print(ABOUT.format(fresh=f"{FRESH_FACTOR:g}", alone=f"{ALONE_FACTOR:g}", few=f"{FEW_VALUES:,}"))
    print(f"Load of the machine (1 minute): median {np.median(loads):.1f}, at most {max(loads):.1f}.\n")
    print(f"**{accused} of {audits} audits accuse an honest kernel (goal: none).**\n")
    names = {"poked": "changing / same", "shown": "changing / shown", "fresh": "new / same"}
    heads = " | ".join(f"{head} | nearest" for head in names.values())
    print(f"| shape | implementation | audits | {heads} | alone / in a row |")
    print(f"|---|---|--:|{'--:|--:|' * len(names)}--:|")
    for (shape, key), group in sorted(found.items()):
        known = [each for each in group if each is not None]
        if not known:
            print(f"| {shape} | {key} | 0 |{' |' * (2 * len(names) + 1)}")
            continue
        numbers = [text for name in names for text in (median_of(known, name), nearest(known, name))]
        print(f"| {shape} | {key} | {len(known)} | {' | '.join(numbers)} | {median_of(known, 'alone')} |")
    return int(accused > 0)


def median_of(found: Sequence[AuditFinding], name: str) -> str:
    """Of a ratio."""
    return f"{float(np.median([getattr(each, f'{name}_ratio') for each in found])):.3f}"


def nearest(found: Sequence[AuditFinding], name: str) -> str:
    """Of a ratio's lower ends."""
    ends = [(getattr(each, f"{name}_low"), getattr(each, f"{name}_allowed")) for each in found]
    low, allowed = max(ends, key=lambda end: end[0] / end[1])
    return f"{low:.3f} of {allowed:.3f}"


if __name__ == "__main__":
    raise SystemExit(main())
