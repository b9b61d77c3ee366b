"""A study's report as a document: a Summary in, blocks out, from the short answer down to what to distrust."""

from __future__ import annotations

from profkit.rendering import study_sentences as sentences
from profkit.rendering.quantities import ABSENT, percent_text, rate_text, ratio_text, time_text
from profkit.rendering.study_document import Block, Bullets, Grid, Heading, Paragraph, Picture
from profkit.rendering.study_sentences import megabytes
from profkit.studies import findings
from profkit.studies.declaration import Figures
from profkit.studies.summary import NOT_RUN, Row, Spread, Summary, VariantFacts


def build_report(summary: Summary, picture: Picture | None = None) -> list[Block]:
    """The whole report."""
    study = summary.study
    blocks: list[Block] = [Heading(1, study.title)]
    blocks += [Paragraph(study.about)] if study.about else []
    blocks.append(Paragraph(_origin(summary)))
    if not summary.frameworks():
        return [*blocks, Paragraph("Nothing was measured yet."), *_missing(summary)]
    blocks += [Heading(2, "In short"), Bullets(sentences.short_answers(summary))]
    blocks += [picture] if picture is not None else []
    blocks += [Heading(2, "Time, memory and precision"), summary_grid(summary), Paragraph(_summary_note(summary))]
    blocks += _operators(summary)
    blocks += _variants(summary)
    blocks += _published(summary)
    blocks += _optimise(summary)
    blocks += _trust(summary)
    return [*blocks, *_missing(summary)]


def summary_grid(summary: Summary) -> Grid:
    """One line per variant and framework that was measured."""
    focus = summary.focus
    headings = ["variant", "framework", "step", "against base", f"{focus} time", "share", f"{focus} bytes", "rate"]
    rows = []
    for facts in summary.variants:
        for framework in summary.frameworks():
            row = summary.row(facts.name, framework)
            if row is not None:
                rows.append([facts.name, framework, *_numbers(row)])
    return Grid([*headings, "precision@1"], [[*row, _precision(summary.facts(row[0]))] for row in rows], texts=2)


def _numbers(row: Row) -> list[str]:
    return [
        time_text(row.step_ns.median if row.step_ns else None),
        spread_text(row.step_ratio),
        time_text(row.focus_ns.median if row.focus_ns else None),
        percent_text(row.focus_percent),
        megabytes(row.focus_bytes),
        rate_text(row.focus_flops_per_s, "FLOP/s"),
    ]


def spread_text(spread: Spread | None) -> str:
    """A ratio with its range over repetitions."""
    if spread is None:
        return ABSENT
    if spread.low == spread.high:
        return ratio_text(spread.median)
    return f"{ratio_text(spread.median)} ({ratio_text(spread.low)} to {ratio_text(spread.high)})"


def _precision(facts: VariantFacts) -> str:
    learned = facts.learned
    if learned is None or learned.precision_percent is None:
        return ABSENT
    return f"{learned.precision_percent:.1f} %"


def _origin(summary: Summary) -> str:
    """Where the numbers come from, in two sentences."""
    study = summary.study
    step = "training" if study.is_training else "inference"
    parts = [
        f"{study.name}{' (quick form)' if study.is_quick else ''}: {study.steps} recorded steps of {step} per cell, "
        f"{study.repetitions} {'repetition' if study.repetitions == 1 else 'repetitions'}, medians."
    ]
    parts += [f"Images: {summary.data}."] if summary.data else []
    return " ".join(parts)


def _summary_note(summary: Summary) -> str:
    bounds = "; a range in brackets is that of the repetitions" if summary.study.repetitions > 1 else ""
    return (
        f"step: median with nothing recorded. share: of all operators' time. bytes: requested by {summary.focus} per step, "
        f"MB are 10^6. rate: flops by formula over its time{bounds}. {_learning_note(summary)}"
    ).rstrip()


def _learning_note(summary: Summary) -> str:
    learned = [
        facts.learned for facts in summary.variants if facts.learned and facts.learned.precision_percent is not None
    ]
    if not learned:
        return ""
    steps = sorted({each.steps for each in learned})
    text = f"precision@1: after {' to '.join(str(step) for step in (steps[0], steps[-1])) if len(steps) > 1 else steps[0]} "
    text += f"training steps in {learned[0].framework}, {learned[0].tested} test images, {learned[0].data}"
    if len(steps) > 1:
        text += "; variants trained for different numbers of steps (the limit of time was reached) do not compare"
    return text + "."


def _operators(summary: Summary) -> list[Block]:
    """The base by kind of operator, frameworks side by side."""
    base = summary.study.base
    rows = {name: row for name in summary.frameworks() if (row := summary.row(base, name)) is not None}
    if not rows:
        return []
    shares = summary.study.published.shares if summary.study.published else {}
    kinds = dict.fromkeys([*shares, *(kind.name for row in rows.values() for kind in row.kinds)])
    order = sorted(kinds, key=lambda kind: -max(_own(row, kind) / (row.operators_ns or 1) for row in rows.values()))
    lines = [
        [kind, *(_kind_text(row, kind) for row in rows.values()), *([percent_text(shares.get(kind))] if shares else [])]
        for kind in order
    ]
    for name in dict.fromkeys(name for row in rows.values() for name in row.remainders):
        times = [time_text(row.remainders.get(name)) for row in rows.values()]
        lines.append([f"({name})", *times, *([ABSENT] if shares else [])])
    headings = ["kind", *rows, *(["published share"] if shares else [])]
    note = (
        "Time per step, share of all operators, requested bytes. Operators that a framework fuses count under the first "
        "kind they do: a convolution with bias and ReLU inside is conv2d. Rows in brackets: no operator ran."
    )
    return [
        Heading(2, f"Which operator takes the time of {base!r}"),
        Bullets(sentences.dominance_sentences(summary)),
        Grid(headings, lines),
        Paragraph(note),
    ]


def _own(row: Row, kind: str) -> float:
    found = row.kind(kind)
    return found.own_ns if found else 0.0


def _kind_text(row: Row, kind: str) -> str:
    found = row.kind(kind)
    if found is None:
        return ABSENT
    share = percent_text(100 * found.own_ns / row.operators_ns) if row.operators_ns else ABSENT
    return f"{time_text(found.own_ns)}, {share}, {megabytes(found.requested_bytes)}"


def _variants(summary: Summary) -> list[Block]:
    blocks: list[Block] = []
    if found := sentences.variant_sentences(summary):
        blocks += [Heading(2, "What each variant saves and costs"), Bullets(found)]
    if found := sentences.combination_sentences(summary):
        blocks += [Heading(2, "Combinations"), Bullets(found)]
    return blocks


def _published(summary: Summary) -> list[Block]:
    published = summary.study.published
    if published is None:
        return []
    blocks: list[Block] = [
        Heading(2, "Beside the published figures"),
        Paragraph(f"Source: {published.source}. {' '.join(published.notes)}"),
        *_ratio_grids(summary),
        Bullets(sentences.comparison_sentences(summary)),
    ]
    if found := sentences.open_sentences(summary):
        blocks += [Heading(2, "What the published figures leave open"), Bullets(found)]
    return blocks


def _ratio_grids(summary: Summary) -> list[Block]:
    """Ratios to the base: published, by formula, and ours."""
    frameworks = summary.frameworks()
    base = summary.base.published
    times, sizes = [], []
    for facts in summary.variants:
        if facts.published is None or base is None:
            continue
        rows = [summary.row(facts.name, name) for name in frameworks]
        times.append(
            [
                facts.name,
                _figure_ratio(facts.published, base, "focus_ms"),
                ratio_text(_part(facts.focus_flops, summary.base.focus_flops)),
                *(spread_text(row.focus_ratio if row else None) for row in rows),
                _figure_ratio(facts.published, base, "total_ms"),
                *(spread_text(row.step_ratio if row else None) for row in rows),
            ]
        )
        sizes.append(
            [
                facts.name,
                _figure_ratio(facts.published, base, "focus_bytes"),
                ratio_text(_part(facts.focus_output_bytes, summary.base.focus_output_bytes)),
                *(ratio_text(row.bytes_ratio if row else None) for row in rows),
                percent_text(facts.published.focus_percent),
                *(percent_text(row.focus_percent if row else None) for row in rows),
                _percent(facts.published.precision_percent),
                _precision(facts),
            ]
        )
    focus = summary.focus
    return [
        Paragraph(f"Time against the base: {focus}, then the whole step."),
        Grid(["variant", f"{focus} published", "flops", *frameworks, "all published", *(f"{name} step" for name in frameworks)], times),
        Paragraph(f"Bytes of {focus} against the base, its share of all operators, and precision@1."),
        Grid(
            [
                "variant", "bytes published", "results", *frameworks, "share published",
                *(f"{name} share" for name in frameworks), "precision published", "ours",
            ],
            sizes,
        ),
    ]  # fmt: skip


def _figure_ratio(figures: Figures, base: Figures, name: str) -> str:
    own, other = getattr(figures, name), getattr(base, name)
    return ratio_text(own / other) if own is not None and other else ABSENT


def _part(value: float, whole: float) -> float | None:
    return value / whole if whole else None


def _percent(value: float | None) -> str:
    return ABSENT if value is None else f"{value:g} %"


def _optimise(summary: Summary) -> list[Block]:
    every = findings.opportunities(summary)
    if not every:
        return []
    headings = [
        "framework",
        "layers",
        "now",
        "native",
        "bound",
        "saves",
        "of the step",
        "auxiliary",
        "dispatch",
        "idle threads",
    ]
    lines = [
        [
            each.framework,
            f"{each.kind}: {', '.join(each.layers)}",
            time_text(each.time_ns),
            time_text(each.native_ns),
            time_text(each.bound_ns),
            time_text(each.saving_ns) if each.saving_ns is not None and each.saving_ns >= 0 else "nothing",
            percent_text(100 * max(0.0, each.saving_ns) / each.step_ns) if each.saving_ns is not None else ABSENT,
            time_text(each.auxiliary_ns),
            time_text(each.dispatch_ns),
            time_text(each.threading_loss_ns),
            each.bottleneck or ABSENT,
        ]
        for each in every
    ]
    note = (
        "Layers with all they do (bias and ReLU included), per recorded step. native: profkit's fastest kernels for the same "
        "layers, measured alone on this machine; bound: the roofline. saves: what the step would lose with these kernels. "
        "auxiliary: of now, moving, padding and making room; dispatch: of now, the framework's own code in these layers; "
        "idle threads: what the kernels would lose if every thread were busy, where helper threads can be seen."
    )
    by_framework: dict[str, list[str]] = {}
    for each in every:
        if each.time_ns >= 0.03 * each.step_ns:
            by_framework.setdefault(each.framework, []).append(sentences.optimise_sentence(each))
    bullets = [f"{name}: {text}" for name, texts in by_framework.items() for text in texts[:2]]
    return [
        Heading(2, "Which operator to optimise, and by how much"),
        Bullets(bullets),
        Grid([*headings, "limited by"], lines, texts=2),
        Paragraph(note),
    ]


def _trust(summary: Summary) -> list[Block]:
    items = [sentences.recording_sentence(summary)]
    spreads = [
        (row.step_ns.high / row.step_ns.low, row)
        for row in summary.rows
        if row.step_ns is not None and row.repetitions > 1 and row.step_ns.low > 0
    ]
    if spreads:
        widest, row = max(spreads, key=lambda pair: pair[0])
        items.append(
            f"Between repetitions the step time differed by up to {100 * (widest - 1):.0f} % ({row.variant}, {row.framework}): "
            "smaller differences between variants are not resolved."
        )
    else:
        items.append("There is one repetition only: differences of a few percent are not resolved.")
    items += ["Kinds are per recorded step; step times are of unrecorded ones: they differ by the cost of recording."]
    for name in summary.frameworks():
        row_of_base = summary.row(summary.study.base, name)
        if row_of_base is not None:
            version = row_of_base.versions.get(name.split("/")[0]) or ", ".join(row_of_base.versions.values())
            items.append(
                f"{name} {version}: {' '.join(_sentence(note) for note in row_of_base.notes) or 'nothing to remark'}"
            )
    return [Heading(2, "How far to trust this"), Bullets([item for item in items if item])]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _missing(summary: Summary) -> list[Block]:
    """Cells without numbers, those of the same framework and reason as one."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for failure in summary.failures:
        key = (failure.framework if failure.kind == "measure" else failure.kind, failure.status, failure.reason)
        groups.setdefault(key, []).append(failure.variant)
    rows = [
        [name, status, str(len(variants)), ", ".join(dict.fromkeys(variants)), reason]
        for (name, status, reason), variants in groups.items()
    ]
    left = sum(row.status == NOT_RUN for row in summary.rows)
    blocks: list[Block] = []
    if rows:
        blocks += [
            Heading(2, "Cells without numbers"),
            Grid(["cell", "status", "cells", "variants", "reason"], rows, texts=5),
        ]
    if left:
        blocks.append(
            Paragraph(f"{left} combinations of variant and framework were not run yet: the same command continues.")
        )
    return blocks
