"""Pages from the results of bench/kernels.py: the summary, and all shapes.

Nothing is measured here: the same file of results always gives the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measured_page import Origin, page_head

from kernel_pages.results import MET, GoalJudgement, Record, Store, bandwidth_share, judge, shape_verdict
from kernel_pages.scaling import pages_section, scaling_section
from kernel_pages.shapes import AS_GIVEN, EXPLAINED, KERNELS, OWN, PAGES, RatioGoal, ShapeGoal, ShapeSection, sections
from profkit.capture.output_files import write_atomically

NOTHING = "No results are kept yet: `{command}` measures them."
LAYER_NOTE = (
    "Statistics of the gradients of normalisations (mean and deviation) are made inside the call of the native kernel; "
    "torch, which takes those of its forward call, has them made ahead of it. The share of the bandwidth is the least "
    "bytes of the operator (each array once) / time / the bandwidth of a copy; where all arrays fit the last-level "
    "cache there is none, and the ratio alone counts. The mean decides for lstm and attention, every shape elsewhere."
)
PEAK_GOAL = 0.92
PEAK_SHAPE = "square 1024"


@dataclass(frozen=True)
class KernelReport:
    """What was written, and whether a goal is missed."""

    summary: str
    missed: list[str]


def write_report(store: Store, path: Path, page: str = KERNELS) -> KernelReport:
    """Write a page's sections with all shapes."""
    report = build_summary(store, page)
    write_atomically(path, document(store, report, page))
    return report


def build_summary(store: Store, page: str = KERNELS) -> KernelReport:
    """One line per goal, thread count and convention."""
    judgements = [
        found
        for section in sections(page)
        for threads in thread_counts(store)
        for convention in (AS_GIVEN, OWN)
        if (found := judge(section, store.of(section.name, threads), threads, convention)) is not None
    ]
    if not judgements:
        return KernelReport(NOTHING.format(command=PAGES[page].command), ["nothing was measured"])
    goals = {section.name: section for section in sections(page)}
    lines = [
        "| measure | threads | convention | shapes | mean | least | below 0.95 | policy's mean | goal | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for item in drop_equal(judgements):
        lines.append(_line(item, goals[item.section]))
    missed = [
        f"{item.section}, {item.threads} threads, {item.convention}: {text}"
        for item in judgements
        for text in item.missed
    ]
    for share, threads in peak_shares(store) if page == KERNELS else []:
        verdict = "met" if share >= PEAK_GOAL else f"missed: {100 * share:.0f} % of peak"
        goal = f">= {PEAK_GOAL} of peak"
        lines.append(
            f"| matmul 1024^3, share of peak | {threads} | {AS_GIVEN} | 1 | {share:.2f} | | | | {goal} | {verdict} |"
        )
        missed += [f"matmul 1024^3: {verdict}"] if share < PEAK_GOAL and threads == 1 else []
    return KernelReport("\n".join(lines), missed)


def thread_counts(store: Store) -> list[int]:
    """Thread counts that occur."""
    return sorted({record["threads"] for record in store.records.values()})


def peak_shares(store: Store) -> list[tuple[float, int]]:
    """What the best native matmul of 1024 reaches of the machine's peak, by thread count."""
    found = []
    for record in store.of("matmul"):
        best = record[AS_GIVEN].get("native")
        if record["name"] == PEAK_SHAPE and best and record["rows"][best][4] is not None:
            found.append((record["rows"][best][4], record["threads"]))
    return sorted(found, key=lambda pair: pair[1])


def drop_equal(judgements: Sequence[GoalJudgement]) -> list[GoalJudgement]:
    """Without the second convention where it gives the same numbers: then one line serves both."""
    kept: list[GoalJudgement] = []
    for item in judgements:
        before = kept[-1] if kept else None
        if before and (before.section, before.threads, before.mean, before.least) == (
            item.section, item.threads, item.mean, item.least,
        ):  # fmt: skip
            continue
        kept.append(item)
    return kept


def _line(item: GoalJudgement, section: ShapeSection) -> str:
    goal = ""
    if isinstance(section.goal, ShapeGoal) and item.is_judged:
        goal = f"each >= {section.goal.ratio:.2f}, or {section.goal.share} of the bandwidth"
    elif isinstance(section.goal, RatioGoal) and item.is_judged:
        goal = f">= {section.goal.mean:.2f}"
        if section.goal.least is not None and item.threads in section.goal.least_threads:
            goal += f", none below {section.goal.least}"
    verdict = "met" if item.is_judged else "not judged"
    if item.missed:
        verdict = "missed: " + "; ".join(item.missed)
    policy = "" if item.policy_mean is None else f"{item.policy_mean:.2f}"
    return (
        f"| {section.title} | {item.threads} | {item.convention} | {item.count} | {item.mean:.2f} | {item.least:.2f} "
        f"| {item.below} | {policy} | {goal} | {verdict} |"
    )


def summary_page(store: Store, report: KernelReport, page: str = KERNELS) -> str:
    """Where the results come from, what the numbers mean, one line per goal, and the shapes that do not reach it."""
    shown = PAGES[page]
    parts = [f"# {shown.title}\n"]
    if store.about:
        about = store.about
        measured: Origin = {"date": about["date"], "commit": about["commit"], "machine": about["machine"]}
        parts = [page_head(shown.title, shown.command, measured)]
        peaks = ", ".join(f"{value} GFLOP/s on {count}" for count, value in about["peak_gflops"].items())
        parts += [f"FMA peak measured: {peaks} thread(s).", ""]
    explained = (
        "Ratio = time of the best framework / time of the native kernel, paired over interleaved rounds, with its 95 % "
        "interval: above 1 the native kernel is faster. Every row was checked against float64 before it was timed. "
        "*best* is the fastest native row, *policy* the one that profkit takes without measuring. Outputs are "
        "allocated in each call on both sides. Means are geometric."
    )
    notes = [LAYER_NOTE]
    if shown.has_own_layouts:
        conventions = (f"- **{name}**: {text}." for name, text in EXPLAINED.items())
        notes = [*conventions, "", "Both are printed where they differ. Batches of the larger networks are cut."]
    return "\n".join([*parts, explained, "", *notes, "", report.summary, "", *not_met(store, page)])


def not_met(store: Store, page: str) -> list[str]:
    """Every shape of goals for each shape that does not reach its goal, losses first."""
    rows = []
    for section in sections(page):
        for record in store.of(section.name):
            if not isinstance(section.goal, ShapeGoal) or record["name"] not in section.shapes:
                continue
            verdict = shape_verdict(section.goal, record, AS_GIVEN)
            if verdict in ("", MET):
                continue
            found, share = record[AS_GIVEN], bandwidth_share(record, AS_GIVEN)
            rows.append(
                f"| {verdict} | {section.name} {record['name']} | {record['threads']} | {found['framework']} "
                f"| {milliseconds(record['rows'][found['framework']][0])} "
                f"| {milliseconds(record['rows'][found['native']][0])} | {interval(found['ratio'])} "
                f"| {'in a cache' if share is None else f'{100 * share:.0f} %'} |"
            )
    if not rows:
        return []
    return [
        "## Shapes that do not reach their goal",
        "",
        "Not resolved: the interval of the ratio reaches the goal.",
        "",
        "| verdict | shape | threads | framework | ms | native ms | ratio | of the bandwidth |",
        "|---|---|---|---|---|---|---|---|",
        *sorted(rows),
        "",
    ]


def document(store: Store, report: KernelReport, page: str = KERNELS) -> str:
    """The summary, then every shape."""
    parts = [summary_page(store, report, page)]
    for section in sections(page):
        if section.goal is not None:
            for threads in thread_counts(store):
                parts += section_part(section, store.of(section.name, threads), threads)
    if page == KERNELS:
        parts += scaling_section(store)
        parts += pages_section(store)
    parts += failures(store, page)
    return "\n".join(parts).rstrip("\n") + "\n"


def section_part(section: ShapeSection, records: Sequence[Record], threads: int) -> list[str]:
    """All shapes of a section at one thread count."""
    rows = [
        line
        for record in in_order(section, records)
        for convention in (AS_GIVEN, OWN)
        for line in shape_lines(record, convention)
    ]
    if not rows:
        return []
    head = "| shape | convention | framework | ms | native | ms | of peak | error | ratio | policy | policy's ratio |"
    return [
        f"## {section.title}, {threads} thread{'s' if threads > 1 else ''}",
        "",
        *(f"{note}\n" for note in section.notes),
        head,
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def in_order(section: ShapeSection, records: Sequence[Record]) -> list[Record]:
    """As the section lists its shapes; what it no longer has is left out."""
    by_name = {record["name"]: record for record in records}
    return [by_name[name] for name in section.shapes if name in by_name]


def shape_lines(record: Record, convention: str) -> list[str]:
    """A shape by one convention; nothing where the other one says the same."""
    found, first = record[convention], record[AS_GIVEN]
    if "ratio" not in found:
        return []
    if convention == OWN and all(found.get(name) == first.get(name) for name in ("framework", "native", "policy")):
        return []
    framework, native = record["rows"][found["framework"]], record["rows"][found["native"]]
    of_peak, of_bandwidth = (native[4], None) if record["bound"] == "compute" else (None, native[7])
    share = "" if of_peak is None else f"{100 * of_peak:.0f} %"
    share = share if of_bandwidth is None else f"{100 * of_bandwidth:.0f} % of bandwidth"
    policy = "not measured" if found["policy_ratio"] is None else interval(found["policy_ratio"])
    line = (
        f"| {record['name']} | {convention} | {found['framework']} | {milliseconds(framework[0])} "
        f"| {found['native'].removeprefix('native/')} | {milliseconds(native[0])} | {share} | {native[3]:.1e} "
        f"| {interval(found['ratio'])} | {found['policy'].removeprefix('native/')} | {policy} |"
    )
    return [line]


def failures(store: Store, page: str) -> list[str]:
    """Rows that were wrong or crashed."""
    names = {section.name for section in sections(page)}
    records = (record for record in store.records.values() if record["section"] in names)
    found = [(record, key, why) for record in records for key, why in record["failed"].items()]
    if not found:
        return []
    return [
        "## Failed rows",
        "",
        *(f"- {r['section']} {r['name']}, {r['threads']} threads: {k}: {w}" for r, k, w in found),
    ]


def milliseconds(ns: float) -> str:
    """Three digits."""
    return f"{ns / 1e6:.3g}"


def interval(ratio: Sequence[float | None]) -> str:
    """1.23 (1.20 to 1.26)."""
    value, low, high = ratio
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
