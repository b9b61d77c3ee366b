"""Tables of a study's report: a Summary in, headings and texts out."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.rendering.quantities import ABSENT, percent_text, rate_text, ratio_text, time_text
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.studies.declaration import Figures
from profkit.studies.findings import part, published_ratio
from profkit.studies.numbers import OperatorRow
from profkit.studies.opportunities import opportunities
from profkit.studies.summary import RepetitionRange, Summary, VariantFacts, VariantRow

SHOWN_PERCENT = 0.1
"""Kinds below this share in every framework, and without bytes, are left out."""


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Table:
    """The first `texts` columns hold words, the others numbers."""
    columns = [TableColumn(text, text, is_text=place < texts) for place, text in enumerate(headings)]
    return Table(columns=columns, lines=[Line(tuple(row)) for row in rows])


def megabytes(value: float | None) -> str:
    """Bytes as published tables have them, in powers of ten: 23.59 MB."""
    if value is None:
        return ABSENT
    if value < 1e6:
        return f"{value / 1e3:.1f} kB" if value >= 1e3 else f"{value:.0f} B"
    return f"{value / 1e6:.2f} MB"


def ratio_range_text(spread: RepetitionRange | None) -> str:
    """A ratio with its range over repetitions."""
    if spread is None:
        return ABSENT
    low, middle, high = (ratio_text(value) for value in (spread.low, spread.median, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def summary_grid(summary: Summary, *, is_short: bool = False) -> Table:
    """One line per variant and framework that was measured; short, it fits a terminal."""
    focus = summary.focus
    if is_short:
        headings = ["variant", "framework", "step", "ratio", focus, "ratio", "share", "bytes", "precision"]
    else:
        headings = ["variant", "framework", "step", "against base", f"{focus} time", "against base", "share"]
        headings += [f"{focus} bytes", "peak", f"{focus} rate", "precision@1"]
    rows = []
    for facts in summary.variants:
        for row in summary.measured(facts.name):
            rows.append([facts.name, row.framework, *_numbers(row, is_short), precision_text(facts)])
    return grid(headings, rows, texts=2)


def _numbers(row: VariantRow, is_short: bool) -> list[str]:
    ratios = [
        ratio_text(spread.median if spread else None) if is_short else ratio_range_text(spread)
        for spread in (row.step_ratio, row.focus_ratio)
    ]
    texts = [
        time_text(row.step_ns.median if row.step_ns else None),
        ratios[0],
        time_text(row.focus_ns.median if row.focus_ns else None),
        ratios[1],
        percent_text(row.focus_percent),
        megabytes(row.focus_bytes),
    ]
    if is_short:
        return texts
    return [*texts, megabytes(row.peak_bytes), rate_text(row.focus_flops_per_s, "FLOP/s")]


def precision_text(facts: VariantFacts) -> str:
    learned = facts.learned
    return f"{learned.precision_percent:.1f} %" if learned and learned.precision_percent is not None else ABSENT


def kinds_grid(summary: Summary) -> Table:
    """The base by kind of operator, frameworks side by side; then the time in which no operator ran."""
    rows = {row.framework: row for row in summary.measured(summary.study.base)}
    shares = summary.study.published.shares if summary.study.published else {}
    kinds = dict.fromkeys([*shares, *(kind.name for row in rows.values() for kind in row.kinds)])
    largest = {kind: max(_share(row, row.kind(kind)) for row in rows.values()) for kind in kinds}
    lines = [
        [
            kind,
            *(_kind_text(row, row.kind(kind)) for row in rows.values()),
            *([percent_text(shares.get(kind))] if shares else []),
        ]
        for kind in sorted(kinds, key=lambda kind: -largest[kind])
        if largest[kind] >= SHOWN_PERCENT
        or any(own.requested_bytes for row in rows.values() if (own := row.kind(kind)) is not None)
    ]
    for name in dict.fromkeys(name for row in rows.values() for name in row.remainders):
        times = [time_text(row.remainders.get(name)) for row in rows.values()]
        lines.append([f"({name})", *times, *([""] if shares else [])])
    return grid(["kind", *rows, *(["published share"] if shares else [])], lines)


def time_ratio_grid(summary: Summary) -> Table:
    """Time against the base: published, by flops, ours; the focus operator, then the whole step."""
    names, base = summary.frameworks(), summary.base
    lines = []
    for facts in summary.variants:
        rows = [summary.row(facts.name, name) for name in names]
        lines.append(
            [
                facts.name,
                ratio_text(published_ratio(facts, base, "focus_ms")),
                ratio_text(part(facts.focus_flops, base.focus_flops)),
                *(ratio_range_text(row.focus_ratio if row else None) for row in rows),
                ratio_text(published_ratio(facts, base, "total_ms")),
                *(ratio_range_text(row.step_ratio if row else None) for row in rows),
            ]
        )
    focus = summary.focus
    headings = ["variant", f"{focus}: published", "flops", *names, "step: published", *names]
    return grid(headings, lines)


def byte_ratio_grid(summary: Summary) -> Table:
    """Bytes of the focus operator against the base, its share, and precision, each published and ours."""
    names, base = summary.frameworks(), summary.base
    lines = []
    for facts in summary.variants:
        rows = [summary.row(facts.name, name) for name in names]
        published = facts.published or Figures()
        lines.append(
            [
                facts.name,
                ratio_text(published_ratio(facts, base, "focus_bytes")),
                ratio_text(part(facts.focus_output_bytes, base.focus_output_bytes)),
                *(ratio_text(row.bytes_ratio if row else None) for row in rows),
                percent_text(published.focus_percent),
                *(percent_text(row.focus_percent if row else None) for row in rows),
                f"{published.precision_percent:g} %" if published.precision_percent is not None else ABSENT,
                precision_text(facts),
            ]
        )
    headings = ["variant", "bytes: published", "results", *names, "share: published", *names, "precision: published"]
    return grid([*headings, "here"], lines)


def opportunity_grid(summary: Summary) -> Table:
    """Kinds of layers of the base beside profkit's kernels and the machine's bound."""
    headings = ["framework", "layers", "now", "native", "bound", "saves", "of the step"]
    headings += ["auxiliary", "dispatch", "idle threads", "class"]
    lines = []
    for each in opportunities(summary):
        saves = each.saving_ns is not None and each.saving_ns > 0
        lines.append(
            [
                each.framework,
                f"{each.kind}: {', '.join(each.layers)}",
                time_text(each.time_ns),
                time_text(each.native_ns) + ("*" if each.is_reference else ""),
                time_text(each.bound_ns),
                time_text(each.saving_ns) if saves else "nothing" if each.saving_ns is not None else ABSENT,
                percent_text(100 * (each.saving_ns or 0.0) / each.step_ns) if saves else "",
                time_text(each.auxiliary_ns),
                time_text(each.dispatch_ns),
                time_text(each.threading_loss_ns),
                each.bottleneck or ABSENT,
            ]
        )
    return grid(headings, lines, texts=2)


def frameworks_grid(summary: Summary) -> Table:
    """Version, cost of recording and remarks of every framework."""
    lines = []
    for row in summary.measured(summary.study.base):
        framework = row.framework.split("/")[0]
        version = next((row.versions[key] for key in ("version", framework, "profkit") if key in row.versions), ABSENT)
        cost = ", ".join(f"{each} {ratio_text(ratio)}" for each, ratio in row.recording.items()) or ABSENT
        notes = " ".join(note if note.endswith(".") else f"{note}." for note in row.notes)
        lines.append([row.framework, version, cost, ratio_text(row.null), notes])
    headings = ["framework", "version", "recorded / unrecorded", "unrecorded / unrecorded", "to be known"]
    return grid(headings, lines, texts=5)


def missing_grid(summary: Summary) -> Table | None:
    """Cells without numbers, those of the same framework and reason as one; None when there are none."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for failure in summary.failures:
        name = failure.framework if failure.kind == "measure" else f"{failure.kind} ({failure.framework})"
        groups.setdefault((name, failure.status, failure.reason), []).append(failure.variant)
    lines = [
        [name, status, str(len(variants)), ", ".join(dict.fromkeys(variants)), reason]
        for (name, status, reason), variants in groups.items()
    ]
    return grid(["framework", "status", "cells", "variants", "reason"], lines, texts=5) if lines else None


def _kind_text(row: VariantRow, kind: OperatorRow | None) -> str:
    if kind is None:
        return ABSENT
    if not kind.calls:  # only the pass for bytes saw it
        return f"{ABSENT}, {ABSENT}, {megabytes(kind.requested_bytes)}"
    return f"{time_text(kind.own_ns)}, {percent_text(_share(row, kind))}, {megabytes(kind.requested_bytes)}"


def _share(row: VariantRow, kind: OperatorRow | None) -> float:
    return 100 * kind.own_ns / row.operators_ns if kind is not None and row.operators_ns else 0.0
