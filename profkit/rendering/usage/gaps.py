"""The table against the baseline, and what it says to do: a GapTable in; a Table or JSON values out."""

from __future__ import annotations

from typing import Any

from profkit.attribution.advice import AUXILIARY, DISPATCH, KERNEL, THREADING, Advice, best_by_bound, best_by_native
from profkit.attribution.bottleneck import FAR, Bottleneck
from profkit.attribution.gaps import GapTable, LayerGap
from profkit.attribution.kinds import AUXILIARY as AUXILIARY_KINDS
from profkit.capture.schema import BACKWARD
from profkit.rendering.quantities import ABSENT, number_text, percent_text, rate_text, ratio_text, time_text
from profkit.rendering.tables.table import Column, Line, Table

EXPLAINED = 0.05
"""Layers with at least this share of the step have the numbers of their class below the table."""
_COLUMNS = (
    Column("layer", "layer", is_text=True),
    Column("phase", "phase", is_text=True),
    Column("time", "time"),
    Column("native", "native"),
    Column("bound", "bound"),
    Column("ratio", "ratio"),
    Column("kernel", "kernel"),
    Column("auxiliary", "aux"),
    Column("dispatch", "dispatch"),
    Column("threads", "threads"),
    Column("class", "class", is_text=True),
)


def gap_table(table: GapTable, explained: float = EXPLAINED) -> Table:
    """Layers, what lies outside of them, the whole step; then the advice and the reasons of large layers."""
    lines = [_line(row) for row in table.rows]
    for each in table.outside:
        times = (_time(_per_step(each.ns, table.steps)), ABSENT, _time(each.bound_ns))
        lines.append(Line((f"({each.name})", "", *times, *[""] * 6)))
    lines.append(_total(table))
    return Table(
        title="Against the baseline: time of a step by layer, beside profkit's kernels and the bound (direct)",
        facts=_facts(table),
        columns=_COLUMNS,
        lines=lines,
        notes=(*advice_lines(table), *_reasons(table, explained), *_notes(table)),
    )


def advice_lines(table: GapTable) -> list[str]:
    """Which operator to optimise first, by how much the step would fall, and why."""
    if all(row.bound_ns is None for row in table.rows):
        return []
    lines = []
    native, bound = best_by_native(table), best_by_bound(table)
    if native is not None:
        gap = native.gap
        lines.append(
            f"Optimise first: {gap.layer} {gap.phase}. profkit's {gap.native_key} would do in {_time(gap.native_ns)} "
            f"what takes {_time(gap.covered_ns / gap.steps)} here: {_fall(native)}. {_cause(native)}"
        )
    elif any(row.native_ns is not None for row in table.rows):
        lines.append("No layer would gain a percent of the step from profkit's kernels.")
    if bound is not None:
        gap = bound.gap
        why = f" ({gap.bottleneck.kind}: {gap.bottleneck.why})" if gap.bottleneck else ""
        lines.append(
            f"Farthest from what this machine can do: {gap.layer} {gap.phase}, {_time(gap.step_ns)} where "
            f"{_time(gap.bound_ns)} is the bound{why}: {_fall(bound)}."
        )
    return lines


def gaps_to_json(table: GapTable) -> dict[str, Any]:
    """All numbers; times are of one step, in nanoseconds."""
    rows = []
    for row in table.rows:
        parts = ("kernel_ns", "auxiliary_ns", "dispatch_ns", "threading_loss_ns", "covered_ns", "calls")
        values = {name: _per_step(getattr(row, name), row.steps) for name in parts}
        names = ("native_ns", "native_key", "bound_ns", "native_bound_ns", "ratio", "flops", "bytes")
        known = {name: getattr(row, name) for name in names}
        rows.append(
            {
                "layer": row.layer,
                "phase": row.phase,
                "framework_ns": row.step_ns,
                **values,
                **known,
                "by_kind_ns": {kind: ns / row.steps for kind, ns in row.by_kind_ns.items()},
                "bottleneck": row.bottleneck.kind if row.bottleneck else None,
                "is_far": row.bottleneck.is_far if row.bottleneck else None,
                "why": row.bottleneck.why if row.bottleneck else None,
            }
        )
    return {
        "schema": "profkit.gaps/1",
        "steps": table.steps,
        "threads": table.threads,
        "step_ns": _per_step(table.wall_ns, table.steps),
        "peak_flops_per_s": table.peak_flops_per_s,
        "peak_bytes_per_s": table.peak_bytes_per_s,
        "rows": rows,
        "outside": [
            {"name": each.name, "ns": _per_step(each.ns, table.steps), "bound_ns": each.bound_ns}
            for each in table.outside
        ],
        "advice": advice_lines(table),
    }


def _line(row: LayerGap) -> Line:
    whole = row.framework_ns

    def part(ns: int | None) -> str:
        return percent_text(None if ns is None or not whole else 100.0 * ns / whole)

    texts = (
        row.layer,
        row.phase,
        _time(row.step_ns),
        _time(row.native_ns),
        _time(row.bound_ns),
        ratio_text(row.ratio),
        part(row.kernel_ns),
        part(row.auxiliary_ns),
        part(row.dispatch_ns),
        part(row.threading_loss_ns),
        _class(row.bottleneck),
    )
    return Line(texts)


def _class(found: Bottleneck | None) -> str:
    """In parentheses where the wall that it names is far away."""
    if found is None:
        return ABSENT
    return f"({found.kind})" if found.is_far else found.kind


def _total(table: GapTable) -> Line:
    native = [row for row in table.rows if row.native_ns is not None]
    native_ns = sum(row.native_ns or 0.0 for row in native)
    every = [*(row.bound_ns for row in table.rows), *(each.bound_ns for each in table.outside)]
    bounds = [bound_ns for bound_ns in every if bound_ns is not None]
    ratio = sum(row.covered_ns / row.steps for row in native) / native_ns if native_ns else None
    texts = (
        _time(_per_step(table.wall_ns, table.steps)),
        _time(native_ns if native else None),
        _time(sum(bounds) if bounds else None),
        ratio_text(ratio),
    )
    return Line(("step", "", *texts, *[""] * 5), "baseline")


def _facts(table: GapTable) -> tuple[str, ...]:
    threads = f"{table.threads} thread{'s' if table.threads > 1 else ''}"
    steps = f"mean of {table.steps} recorded step{'s' if table.steps != 1 else ''}, {threads}"
    if table.peak_flops_per_s is None:
        return (f"{steps}; there is no baseline in this capture",)
    peaks = f"{rate_text(table.peak_flops_per_s, 'FLOP/s')}, {rate_text(table.peak_bytes_per_s, 'B/s')}"
    facts = [f"{steps}; measured peaks {peaks}"]
    if table.busy_load is not None:
        facts.append(
            f"warning: native kernels were timed on a busy machine (load {table.busy_load:.1f}), they may be faster; "
            "the next run on a quieter one times them again"
        )
    return tuple(facts)


def _reasons(table: GapTable, explained: float) -> list[str]:
    rows = [row for row in table.rows if row.bottleneck and row.framework_ns >= explained * table.wall_ns]
    return [f"{row.layer} {row.phase}: {row.bottleneck.kind}, {row.bottleneck.why}" for row in rows if row.bottleneck]


def _notes(table: GapTable) -> list[str]:
    notes = ["kernel + aux (pad, reorder, copy, fill) + dispatch = time; threads: the part that waiting threads cost"]
    if any(row.native_ns is not None for row in table.rows):
        only = " of the layers that have one" if any(row.native_ns is None for row in table.rows) else ""
        without = "; backward without the gradients of bias and ReLU, for which there are no kernels"
        has_backward = any(row.phase == BACKWARD for row in table.rows)
        notes.append(f"ratio: time / native{only}{without if has_backward else ''}")
    if any(row.bound_ns is not None for row in table.rows):
        own = [f"{row.layer} {row.phase} {_time(row.native_bound_ns)}" for row in table.rows if _has_own_bound(row)]
        winograd = f"; of the Winograd kernels that native took: {', '.join(own)}" if own else ""
        notes.append(f"bound (direct): least time on this machine by the direct method{winograd}")
    if any(row.bottleneck and row.bottleneck.is_far for row in table.rows):
        notes.append(f"class in parentheses: the nearest limit, still at least {FAR:.0f}x away")
    if table.reference_keys:
        keys = ", ".join(key.removesuffix("/native/cpu/reference") for key in table.reference_keys)
        notes.append(f"native {keys}: reference kernels, not tuned")
    return notes


def _has_own_bound(row: LayerGap) -> bool:
    return row.native_bound_ns is not None and row.native_bound_ns != row.bound_ns


def _fall(advice: Advice) -> str:
    share = percent_text(100.0 * advice.saving_ns / advice.now_ns)
    return f"the step would take {_time(advice.then_ns)} instead of {_time(advice.now_ns)} ({share} less)"


def _cause(advice: Advice) -> str:
    gap = advice.gap
    if advice.cause == AUXILIARY:
        kinds = sorted(((ns, kind) for kind, ns in gap.by_kind_ns.items() if kind in AUXILIARY_KINDS), reverse=True)
        named = ", ".join(f"{kind} {_time(ns / gap.steps)}" for ns, kind in kinds if ns)
        return f"Most of the difference is work that the layer does not ask for: {named}."
    causes = {
        KERNEL: "Most of the difference is in the kernel itself",
        DISPATCH: "Most of the difference passes outside its operators, in the framework's own code",
        THREADING: "Most of the difference is waiting threads",
    }
    return f"{causes[advice.cause]}: {_time(advice.cause_ns)}."


def _per_step(value: int | None, steps: int) -> float | None:
    return None if value is None or not steps else value / steps


def _time(ns: float | None) -> str:
    """Three digits are all that fits, and all that is known."""
    text = time_text(ns)
    amount, _, unit = text.partition(" ")
    return f"{number_text(float(amount))} {unit}" if unit else text
