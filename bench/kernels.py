"""Native CPU kernels against the frameworks, every goal of a page in one command, on one thread and on two. The page
`kernels`: forward and gradients of convolutions, matmul, latency, pooling, LRN, bias + ReLU; `layer_kernels`: the other
operators of layers, those of optimisers, and gradients.

Run: python bench/kernels.py --results DIR         (about three quarters of an hour on a quiet machine with 2 cores)
     python bench/kernels.py --results DIR --section conv,matmul --threads 1 --resume
     python bench/kernels.py --quick               (a minute, two shapes per section)
     python bench/kernels.py --results DIR --render > docs/measured/kernels.md   (from DIR; nothing is measured)
     python bench/kernels.py --results DIR --fit   (the policy's costs from DIR)
     python bench/kernels.py --page layer_kernels --results DIR > docs/measured/layer_kernels.md   (a quarter of
         an hour; one that was killed goes on with --resume)

Every shape is kept in DIR/kernels.json as soon as it is measured; DIR/PAGE.md has all shapes, stdout the summary.
Without --results DIR is a new temporary folder. Exit code: 0 goals met, 4 a goal is missed, 130 interrupted (what was
measured is kept).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_pages import fit as kernel_fit
from kernel_pages.report import summary_page, write_report
from kernel_pages.results import Record, Store, choose_again, record_of
from kernel_pages.shapes import AS_GIVEN, KERNELS, OWN, PAGES, ShapeSection, sections
from measured_page import origin

from profkit import _core
from profkit.frameworks.native.costs import known_costs
from profkit.measurement.options import MeasureOptions
from profkit.measurement.peaks import machine_peaks
from profkit.measurement.result import Cell, Result
from profkit.measurement.run import measure_cells
from profkit.measurement.selection import all_implementations
from profkit.ops.spec import Spec

MISSED, INTERRUPTED = 4, 130
QUICK_SHAPES, QUICK_BUDGET_S = 2, 0.3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was requested, write the report, judge."""
    arguments = parse(argv)
    chosen = chosen_sections(arguments.page, arguments.section, arguments.quick, arguments.shapes)
    if arguments.native:
        chosen = [replace(section, frameworks=()) for section in chosen]
    folder = arguments.results or Path(tempfile.mkdtemp(prefix="profkit-kernels-"))
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder / "kernels.json")
    interrupted = False
    if not (arguments.render or arguments.fit):
        budget = QUICK_BUDGET_S if arguments.quick else arguments.budget
        interrupted = not measure_sections(store, chosen, arguments.threads, budget, arguments.resume)
    if arguments.fit:
        print(kernel_fit.write_costs(store))
        known_costs.cache_clear()
        print(f"{choose_again(store)} choices of the policy changed", file=sys.stderr)
    report = write_report(store, folder / f"{arguments.page}.md", arguments.page)
    print(summary_page(store, report, arguments.page), end="")
    print(f"kept in {folder}", file=sys.stderr)
    if interrupted:
        return INTERRUPTED
    return MISSED if report.missed else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pages = {page: [section.name for section in sections(page)] for page in PAGES}
    each = "; ".join(f"of {page}: {', '.join(names)}" for page, names in pages.items())
    parser.add_argument("--page", choices=PAGES, default=KERNELS, help=f"what is measured and rendered [{KERNELS}]")
    parser.add_argument("--section", help=f"only these sections of the page ({each})")
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="thread counts [1,2]")
    parser.add_argument("--budget", type=float, default=1.5, help="sampling time per shape in seconds [1.5]")
    parser.add_argument("--shapes", default="", help="only shapes whose name contains this")
    parser.add_argument("--native", action="store_true", help="time native rows alone, for --fit: no ratios come of it")
    parser.add_argument("--resume", action="store_true", help="leave out what this build has measured already")
    parser.add_argument("--quick", action="store_true", help="two shapes per section, short: does it work?")
    parser.add_argument("--render", action="store_true", help="measure nothing: report what --results holds")
    parser.add_argument("--fit", action="store_true", help="fit the policy's costs to what --results holds")
    parser.add_argument("--results", type=Path, metavar="DIR", help="folder of kernels.json and kernels.md [a new one]")
    arguments = parser.parse_args(argv)
    known = pages[arguments.page]
    arguments.section = known if arguments.section is None else arguments.section.split(",")
    unknown = [name for name in arguments.section if name not in known]
    if unknown:
        parser.error(f"no section {unknown[0]!r} on the page {arguments.page}: there are {', '.join(known)}")
    if (arguments.render or arguments.fit or arguments.resume) and not arguments.results:
        parser.error("--render, --fit and --resume need the folder of an earlier run: --results DIR")
    return arguments


def numbers(text: str) -> list[int]:
    """Thread counts of a comma list."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"thread counts start at 1, got {text}")
    return found


def chosen_sections(page: str, names: Sequence[str], quick: bool, containing: str) -> list[ShapeSection]:
    """The sections that were asked for, cut down for a quick run."""
    chosen = [section for section in sections(page) if section.name in names]
    cut = []
    for section in chosen:
        shapes = {name: spec for name, spec in section.shapes.items() if containing in name}
        if quick:
            smallest = sorted(shapes, key=lambda name: shapes[name].flops())[:QUICK_SHAPES]
            shapes = {name: shapes[name] for name in smallest}
        cut.append(replace(section, shapes=shapes))
    return cut


def measure_sections(
    store: Store, chosen: Sequence[ShapeSection], threads: Sequence[int], budget_s: float, resume: bool
) -> bool:
    """Measure and keep every shape; False when it was interrupted."""
    build = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:8]
    store.about |= about(threads)
    total = sum(len(section.shapes) for section in chosen) * len(threads)
    done, begin = 0, time.monotonic()
    for section in chosen:
        for count in threads:
            known = {r["name"] for r in store.of(section.name, count) if r["build"] == build} if resume else set()
            wanted = {name: spec for name, spec in section.shapes.items() if name not in known}
            done += len(section.shapes) - len(wanted)
            for op in dict.fromkeys(spec.op for spec in wanted.values()):
                names = {spec: name for name, spec in wanted.items() if spec.op == op}
                before = done

                def keep(cell: Cell, names: dict[Spec, str] = names, section: ShapeSection = section) -> None:
                    nonlocal done
                    done += 1
                    record = record_of(section, names[cell.spec], cell, build)
                    store.keep(record)
                    left = (time.monotonic() - begin) / done * (total - done)
                    tell(f"[{done}/{total}, {left / 60:.0f} min left] {line(record)}")

                result = measured(section, op, list(names), count, budget_s, keep)
                if result.interrupted:
                    return False
                done = before + len(names)
    return True


def measured(
    section: ShapeSection, op: str, specs: Sequence[Spec], threads: int, budget_s: float, keep: Callable[[Cell], None]
) -> Result:
    """One operator's shapes of a section: all rows in turns, checked before they are timed."""
    keys = section.keys(op)
    options = MeasureOptions(
        only=keys,
        # A key names what continues it, too.
        exclude=[row.key for row in all_implementations(op) if row.key not in keys and row.framework != "native"],
        baseline=keys[0],
        device="cpu",
        threads=[threads],
        budget_s=budget_s * section.budget,
        output=[section.output],
        tuned=False,
    )
    return measure_cells(specs, options, on_cell=keep)


def about(threads: Sequence[int]) -> dict[str, object]:
    """What the numbers belong to; no host name."""
    features = _core.cpu_features()
    load = os.getloadavg()[0]
    peaks = {str(count): round(machine_peaks("float32", count, False)["flops_per_s"] / 1e9, 1) for count in threads}
    return {
        **origin(),
        "simd": features["simd_active"],
        "caches_kib": [size >> 10 for size in (features["l1d_bytes"], features["l2_bytes"], features["l3_bytes"])],
        "peak_gflops": peaks,
        "load_at_begin": round(load, 1),
    }


def line(record: Record) -> str:
    """A record for a person who watches."""
    words = [f"{record['section']}, {record['threads']} threads, {record['name']}:"]
    for convention in (AS_GIVEN, OWN):
        found = record[convention]
        if "ratio" in found:
            policy = f"policy {found['policy_ratio'][0]:.2f}" if found["policy_ratio"] else f"{found['policy']} not run"
            words.append(f"{convention} {found['native']} / {found['framework']} {found['ratio'][0]:.2f} ({policy})")
    words += [f"FAILED {key}: {why}" for key, why in record["failed"].items()]
    return " ".join(words)


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
