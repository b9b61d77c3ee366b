"""Inner loops of the CPU kernels: their machine code, what each kernel reaches, when the policy takes it.

Run: python bench/inner_loops.py [--build build/cp311-...] [--results DIR] > docs/measured/kernel_loops.md

Loops come from the object files of a build (objdump, llvm-mca); what a kernel reaches and when it is taken are from the
results of bench/kernels.py in DIR and the costs of the policy. docs/kernels.md explains each kernel.
Both instruction sets are there in a build with PROFKIT_ALL=ON.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_pages.machine_loops import Loop, kernel_loops, modelled_cycles, peak_share, read_object
from kernel_pages.results import Record, Store
from kernel_pages.shapes import AS_GIVEN, OWN
from measured_page import ROOT, page_head

from profkit import _core
from profkit.frameworks.native.costs import LANES, cost_name, known_costs, nanoseconds, terms
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.ops import SPECS, spec_from_dict

ISAS = ("avx2", "avx512")
KINDS = ("FMA", "load", "broadcast", "shuffle", "store", "vector", "other")
EXAMPLES = 4
EXPLANATION = """\
- **Inner loop**: the innermost loops of the kernel with the most FMAs, found with objdump in the object files, and the
  instruction mix of one iteration. *vector* is other vector arithmetic, *other* is counters, addresses and jumps. FMAs,
  loads and shuffles with a memory operand count as what they compute. *cycles* is llvm-mca's estimate for one iteration
  with all data in the L1 cache (AVX2: Zen 2, because LLVM 14 has half the FMA rate for Zen 3; AVX-512: Ice Lake);
  *of FMA peak* compares the FMAs of one iteration with two per cycle.
- **Measured**: share of the measured peak where this kernel is the fastest native one. Winograd kernels need fewer
  products than the direct method, so their share can exceed 100 %.
- **Where its time goes**: the policy's cost model: products, gathering (packing positions), weights (packed, or read in
  place), results.
- **Taken**: what the policy decides; `profkit conv --explain` gives the reasons for one spec.
"""


def main() -> int:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="build folder [the newest in build/]")
    parser.add_argument("--results", type=Path, metavar="DIR", help="results of bench/kernels.py [loops alone]")
    arguments = parser.parse_args()
    folder = arguments.build or max((ROOT / "build").glob("cp*"), key=lambda path: path.stat().st_mtime)
    store = Store(arguments.results / "kernels.json") if arguments.results else None
    parts = [
        page_head("Inner loops of the native CPU kernels", "python bench/inner_loops.py --results DIR"),
        EXPLANATION,
    ]
    for op in SPECS:
        objects = {isa: sorted(folder.rglob(f"units/{op}*_{isa}.cpp.o")) for isa in ISAS}
        loops = {
            isa: {name: found for path in paths for name, found in kernel_loops(read_object(path)).items()}
            for isa, paths in objects.items()
        }
        for key in _core.kernels(op):
            name = key.rpartition("/")[2]
            if name == "reference":
                continue
            facts = [loop_table({isa: found.get(f"{op}_{name}", []) for isa, found in loops.items()})]
            if store is not None:
                facts += [tell(store, op, name) for tell in (reached_text, rest_text, taken_text)]
            parts += [f"## {op}: {name}\n", *(f"{fact}\n" for fact in facts if fact)]
    print("\n".join(parts), end="")
    return 0


def loop_table(loops: Mapping[str, Sequence[Loop]]) -> str:
    """By instruction set the mix of each loop and what it is modelled to take."""
    if not any(loops.values()):
        return ""
    head = f"| set | inner loop, float32 | instructions | {' | '.join(KINDS)} | cycles | of FMA peak |"
    lines = [head, "|---" * (len(KINDS) + 5) + "|"]
    for isa, found in loops.items():
        for loop in found:
            mix, cycles = loop.mix, modelled_cycles(loop, isa)
            share = f"{100 * peak_share(loop, cycles):.0f} %" if mix["FMA"] else ""
            counts = " | ".join(str(mix[kind]) for kind in KINDS)
            count = len(loop.instructions)
            lines.append(f"| {isa} | `{loop.function}` | {count} | {counts} | {cycles:.0f} | {share} |")
    return "\n".join(lines)


def reached_text(store: Store, op: str, name: str) -> str:
    """What it reaches of the machine's peak where it is the fastest native kernel."""
    found = []
    for record in of_operator(store, op):
        best = record[OWN].get("native", "")
        if best.startswith(f"native/{name}") and _is(best, name) and record["bound"] == "compute":
            found.append((record["rows"][best][4], record))
    shares = [(share, record) for share, record in found if share is not None]
    if not of_operator(store, op):
        return ""
    if not shares:
        return "Measured: it is the fastest native kernel of none of the bench's shapes that arithmetic limits."
    best_share, best_record = max(shares, key=lambda pair: pair[0])
    middle = statistics.median(share for share, _ in shares)
    return (
        f"Measured: the fastest native kernel of {len(shares)} shapes and thread counts; median {100 * middle:.0f} % "
        f"of peak (textbook operations), best {100 * best_share:.0f} % "
        f"({best_record['name']}, {best_record['threads']} threads)."
    )


def rest_text(store: Store, op: str, name: str) -> str:
    """Where its time goes by the fitted costs, over the shapes it was measured on; page faults as counted."""
    lanes = LANES[store.about["simd"]] if store.about else 8
    shares: Counter[str] = Counter()
    cells, faults = 0, 0
    for record in of_operator(store, op):
        numbers = record["rows"].get(f"native/{name}")
        spec = spec_from_dict(record["spec"])
        cost = known_costs().get(cost_name(f"{op}/native/cpu/{name}", spec))
        if numbers is None or cost is None:
            continue
        threads = worthwhile_threads(spec, record["threads"])
        parts = nanoseconds(cost, terms(f"{op}/native/cpu/{name}", spec, lanes), threads)
        total = sum(parts.values()) or 1.0
        shares.update({term: part / total for term, part in parts.items()})
        cells += 1
        faults += bool(numbers[6])
    if not cells:
        return ""
    mean = {term: share / cells for term, share in shares.most_common()}
    words = ", ".join(f"{term} {100 * share:.0f} %" for term, share in mean.items() if share > 0.005)
    paging = f" {faults} of {cells} shapes have page faults in each call." if faults else ""
    return f"Where its time goes, by the fitted costs, mean over {cells} shapes: {words}.{paging}"


def taken_text(store: Store, op: str, name: str) -> str:
    """For how many shapes of the bench the policy takes it."""
    records = of_operator(store, op)
    taken = [r["name"] for r in records if _is(r[AS_GIVEN].get("policy", ""), name) and r["threads"] == 1]
    total = sum(record["threads"] == 1 for record in records)
    if not total:
        return ""
    examples = ", ".join(dict.fromkeys(taken[:: max(1, len(taken) // EXAMPLES)][:EXAMPLES]))
    such = f", such as {examples}" if taken else ""
    return f"Taken by the policy for {len(taken)} of {total} shapes (one thread, data as given){such}."


def of_operator(store: Store, op: str) -> list[Record]:
    """Records of the measured sections; those with a reused output are another question."""
    return [record for record in store.records.values() if record["op"] == op and record["section"] != "pages"]


def _is(row: str, name: str) -> bool:
    """Whether a row is of this kernel, in whichever form."""
    return row.split("/")[1:2] == [name]


if __name__ == "__main__":
    raise SystemExit(main())
