"""docs/kernels.md: per CPU kernel its idea, the machine code of its inner loops, what it reaches, when it is taken.

Run: python bench/inner_loops.py [--build build/cp311-...]     after a build, and after bench/kernels.py

Ideas are written by hand and stay; a kernel that has none yet gets the opening comment of its .inl. What stands between
the markers of a section is written anew from the build's object files (objdump, llvm-mca), docs/bench/kernels.json and
the policy's costs.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_results import Record, Store
from kernel_shapes import AS_GIVEN, OWN
from machine_loops import Loop, kernel_loops, modelled_cycles, peak_share, read_object

from profkit import _core
from profkit.backends.native_costs import LANES, cost_name, known_costs, nanoseconds, terms
from profkit.backends.native_threads import worthwhile_threads
from profkit.ops import SPECS, spec_from_dict
from profkit.rendering.whole_file import write_whole

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kernels.md"
BEGIN, END = "<!-- written by bench/inner_loops.py -->", "<!-- end -->"
ISAS = ("avx2", "avx512")
KINDS = ("FMA", "load", "broadcast", "shuffle", "store", "vector", "other")
EXAMPLES = 4


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="build folder [the newest in build/]")
    arguments = parser.parse_args()
    folder = arguments.build or max((ROOT / "build").glob("cp*"), key=lambda path: path.stat().st_mtime)
    store = Store(ROOT / "docs" / "bench" / "kernels.json")
    opening, ideas = written_by_hand(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Native CPU kernels\n")
    parts = [opening]
    for op in SPECS:
        paths = {isa: next(folder.rglob(f"kernels/{op}/isa_{isa}.cpp.o"), None) for isa in ISAS}
        loops = {isa: kernel_loops(read_object(path)) for isa, path in paths.items() if path is not None}
        for key in _core.kernels(op):
            name = key.rpartition("/")[2]
            if name == "reference":
                continue
            title = f"{op}: {name}"
            idea = ideas.get(title) or opening_comment(op, name)
            facts = [loop_table({isa: found.get(f"{op}_{name}", []) for isa, found in loops.items()})]
            facts += [tell(store, op, name) for tell in (reached_text, rest_text, taken_text)]
            parts += [f"## {title}", idea, BEGIN, *filter(None, facts), END]
    write_whole(PAGE, "\n\n".join(parts) + "\n")
    return 0


def written_by_hand(page: str) -> tuple[str, dict[str, str]]:
    """The page's opening, and the text of each section above its markers."""
    opening, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    texts = {}
    for section in sections:
        title, _, text = section.partition("\n")
        texts[title.strip()] = text.partition(BEGIN)[0].strip()
    return opening.strip(), texts


def opening_comment(op: str, name: str) -> str:
    """What the kernel's own file says first."""
    # Sizes of one idea share a file: winograd_8x8 is in cpu_winograd.inl.
    names = (name, name.rpartition("_")[0])
    found = [ROOT / "csrc" / "kernels" / op / f"cpu_{word}.inl" for word in names if word]
    path = next((file for file in found if file.exists()), None)
    if path is None:
        return ""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return re.sub(r"^\S+/native/cpu/[^:]+:\s*", "", " ".join(lines))


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
