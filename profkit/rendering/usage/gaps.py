"""The table against the baseline, and what it says to do: a GapTable in; a Table or JSON values out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from profkit.attribution.advice import AUXILIARY, DISPATCH, KERNEL, THREADING, Advice, best_by_bound, best_by_native
from profkit.attribution.bottleneck import FAR
from profkit.attribution.gaps import GapTable, LayerGap
from profkit.attribution.kinds import AUXILIARY as AUXILIARY_KINDS
from profkit.capture.schema import BACKWARD
from profkit.errors import listed
from profkit.rendering.quantities import ABSENT, number_text, percent_text, plural, rate_text, ratio_text, time_text
from profkit.rendering.tables.table import Line, Table, columns_of

EXPLAINED = 0.05
"""Layers with at least this share of the step have the numbers of their class below the table."""
_COLUMNS = columns_of(
    ("layer", "phase", "time", "native", "bound", "ratio", "kernel", "auxiliary", "dispatch", "threads", "class"),
    ("layer", "phase", "class"),
    auxiliary="aux",
)


def gap_table(table: GapTable, explained: float = EXPLAINED, top: int | None = None) -> Table:
    """Layers, the time outside of them, the whole step; then the advice and the reasons of large layers.

    With `top`, the layers that take longest, in the order in which they run, and one line for all others.
    """
    shown = _longest(table.rows, top)
    lines = [_line(row) for row in shown]
    if hidden := [row for row in table.rows if row not in shown]:
        lines.append(_hidden(hidden))
    for each in table.outside:
        times = (_time(_per_step(each.ns, table.steps)), _time(each.native_ns), _time(each.bound_ns))
        lines.append(Line((f"({each.name})", "", *times, *[""] * 6)))
    lines.append(_total(table))
    return Table(
        title="Against the baseline: time of a step by layer, beside profkit's kernels and the bound (direct)",
        facts=_facts(table),
        columns=_COLUMNS,
        lines=lines,
        notes=(*advice_lines(table), *_reasons(table, explained), *_notes(table, top)),
    )


def advice_lines(table: GapTable) -> list[str]:
    """Which operator to optimise first, by how much the step would fall, and why."""
    if all(row.bound_ns is None for row in table.rows):
        return []
    lines = []
    if table.disturbance:
        lines.append(
            "Before anything is optimised, record it again while the machine is quiet: these times are doubtful."
        )
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
    parts = ("kernel_ns", "auxiliary_ns", "dispatch_ns", "threading_loss_ns", "covered_ns", "calls")
    names = ("native_ns", "native_key", "bound_ns", "native_bound_ns", "ratio", "flops", "bytes")
    rows = [
        {
            "layer": row.layer,
            "phase": row.phase,
            "framework_ns": row.step_ns,
            **{name: _per_step(getattr(row, name), row.steps) for name in parts},
            **{name: getattr(row, name) for name in names},
            "by_kind_ns": {kind: ns / row.steps for kind, ns in row.by_kind_ns.items()},
            "bottleneck": row.bottleneck.kind if row.bottleneck else None,
            "is_far": row.bottleneck.is_far if row.bottleneck else None,
            "why": row.bottleneck.why if row.bottleneck else None,
        }
        for row in table.rows
    ]
    return {
        "schema": "profkit.gaps/1",
        "steps": table.steps,
        "threads": table.threads,
        "step_ns": _per_step(table.wall_ns, table.steps),
        "peak_flops_per_s": table.peak_flops_per_s,
        "peak_bytes_per_s": table.peak_bytes_per_s,
        "rows": rows,
        "outside": [
            {
                "name": each.name,
                "ns": _per_step(each.ns, table.steps),
                "native_ns": each.native_ns,
                "bound_ns": each.bound_ns,
            }
            for each in table.outside
        ],
        "advice": advice_lines(table),
    }


def _line(row: LayerGap) -> Line:
    times = map(_time, (row.step_ns, row.native_ns, row.bound_ns))
    whole = row.framework_ns
    shares = (
        percent_text(None if ns is None or not whole else 100.0 * ns / whole)
        for ns in (row.kernel_ns, row.auxiliary_ns, row.dispatch_ns, row.threading_loss_ns)
    )
    limit = row.bottleneck.kind if row.bottleneck else ABSENT
    if row.bottleneck and row.bottleneck.is_far:
        limit = f"({limit})"
    return Line((row.layer, row.phase, *times, ratio_text(row.ratio), *shares, limit))


def _longest(rows: Sequence[LayerGap], top: int | None) -> Sequence[LayerGap]:
    """So many rows, in their order."""
    if top is None or len(rows) <= top:
        return rows
    places = sorted(range(len(rows)), key=lambda place: -rows[place].framework_ns)[:top]
    return [rows[place] for place in sorted(places)]


def _hidden(rows: Sequence[LayerGap]) -> Line:
    """Rows that are not shown, together."""
    native_ns, ratio = _native_sum(rows)
    times = (sum(row.step_ns for row in rows), native_ns, _known_sum(row.bound_ns for row in rows))
    return Line((f"… {len(rows):,} more rows", "", *map(_time, times), ratio_text(ratio), *[""] * 5), "more")


def _total(table: GapTable) -> Line:
    native_ns, ratio = _native_sum(table.rows)
    outside_ns = _known_sum(each.native_ns for each in table.outside)
    native_ns = _known_sum((native_ns, outside_ns))
    bound_ns = _known_sum((*(row.bound_ns for row in table.rows), *(each.bound_ns for each in table.outside)))
    whole = (_per_step(table.wall_ns, table.steps), native_ns, bound_ns)
    return Line(("step", "", *map(_time, whole), ratio_text(ratio), *[""] * 5), "baseline")


def _native_sum(rows: Sequence[LayerGap]) -> tuple[float | None, float | None]:
    """Of the rows that have native kernels: what these take, and how many times that the framework does."""
    native_ns = _known_sum(row.native_ns for row in rows)
    covered_ns = sum(row.covered_ns / row.steps for row in rows if row.native_ns is not None)
    return native_ns, covered_ns / native_ns if native_ns else None


def _known_sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _facts(table: GapTable) -> tuple[str, ...]:
    steps = f"mean of {plural(table.steps, 'recorded step')}, {plural(table.threads, 'thread')}"
    if table.peak_flops_per_s is None:
        return (f"{steps}; there is no baseline in this capture",)
    peaks = f"{rate_text(table.peak_flops_per_s, 'FLOP/s')}, {rate_text(table.peak_bytes_per_s, 'B/s')}"
    facts = [f"{steps}; measured peaks {peaks}"]
    if table.disturbance:
        facts.append(f"warning: {table.disturbance}: distances from kernels and bound may be the machine's")
    if table.busy_load is not None:
        facts.append(
            f"warning: native kernels were timed on a busy machine (load {table.busy_load:.1f}), they may be faster; "
            "the next run on a quieter one times them again"
        )
    return tuple(facts)


def _reasons(table: GapTable, explained: float) -> list[str]:
    rows = [row for row in table.rows if row.bottleneck and row.framework_ns >= explained * table.wall_ns]
    return [f"{row.layer} {row.phase}: {row.bottleneck.kind}, {row.bottleneck.why}" for row in rows if row.bottleneck]


def _notes(table: GapTable, top: int | None) -> list[str]:
    notes = ["kernel + aux (pad, reorder, copy, fill) + dispatch = time; threads: the part that waiting threads cost"]
    if top is not None and len(table.rows) > top:
        notes.insert(0, f"the {top} rows that take longest, in their order; all of them: --top {len(table.rows)}")
    if any(row.native_ns is not None for row in table.rows):
        only = " of the layers that have one" if any(row.native_ns is None for row in table.rows) else ""
        without = "; without the gradient of a bias that no ReLU follows, which has no kernel"
        has_backward = any(row.phase == BACKWARD for row in table.rows)
        notes.append(f"ratio: time / native{only}{without if has_backward else ''}")
    if any(row.bound_ns is not None for row in table.rows):
        own = [
            f"{row.layer} {row.phase} {_time(row.native_bound_ns)}"
            for row in table.rows
            if row.native_bound_ns not in (None, row.bound_ns)
        ]
        winograd = f"; of the Winograd kernels that native took: {_listed(own, top)}" if own else ""
        notes.append(f"bound (direct): least time on this machine by the direct method{winograd}")
        notes += _faster_than_bound(table, top)
    if any(row.bottleneck and row.bottleneck.is_far for row in table.rows):
        notes.append(f"class in parentheses: the nearest limit, still at least {FAR:.0f}x away")
    if table.later:
        notes.append(
            f"native: {plural(table.later, 'operator was', 'operators were')} not measured in the time for it; "
            "the next run goes on (--baseline-limit)"
        )
    if table.reference_keys:
        keys = ", ".join(key.removesuffix("/native/cpu/reference") for key in table.reference_keys)
        notes.append(f"native {keys}: reference kernels, not tuned")
    return notes


def _listed(names: Sequence[str], top: int | None) -> str:
    """All names, or the first ones where the table has its first rows only."""
    return ", ".join(names) if top is None else listed(names)


def _faster_than_bound(table: GapTable, top: int | None) -> list[str]:
    """A time below the bound has a reason, or is one to doubt the peaks."""

    def faster(pairs: Iterable[tuple[LayerGap, float | None, float | None]]) -> str:
        found = [
            f"{row.layer} {row.phase} {percent_text(100.0 * bound_ns / time_ns)}"
            for row, time_ns, bound_ns in pairs
            if time_ns and bound_ns is not None and time_ns < bound_ns
        ]
        return _listed(found, top)

    notes = []
    if named := faster((row, row.step_ns, row.bound_ns) for row in table.rows):
        notes.append(
            f"faster than the bound (direct): {named}; by a method with fewer operations, by data that stayed in "
            "caches, or the measured peaks are too low"
        )
    if named := faster((row, row.native_ns, row.native_bound_ns) for row in table.rows):
        notes.append(
            f"native kernels faster than their bound: {named}; their data stayed in caches, or the measured peaks are "
            "too low"
        )
    return notes


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
