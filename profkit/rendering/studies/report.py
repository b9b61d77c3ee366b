"""A study's report as a document: a Summary in, blocks out, from the short answer down to what to distrust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from profkit.rendering.quantities import plural
from profkit.rendering.studies import sentences
from profkit.rendering.studies.answers import first_opportunities, optimise_sentence, short_answers
from profkit.rendering.studies.grids import (
    byte_ratio_grid,
    frameworks_grid,
    kinds_grid,
    missing_grid,
    opportunity_grid,
    summary_grid,
    time_ratio_grid,
)
from profkit.rendering.studies.sweeps import sweep_blocks, times_grid
from profkit.rendering.tables.document import Block, Bullets, Document, Heading, Paragraph, Picture
from profkit.rendering.tables.table import Item, Items
from profkit.studies.declaration import Study
from profkit.studies.opportunities import opportunities
from profkit.studies.summary import NOT_RUN, Summary

_KINDS_NOTE = (
    "Per recorded step: own time, share of all operators, requested bytes (0 B: in place; a dash: not observable). "
    "What a framework fuses counts under the first kind it does: a convolution with bias and ReLU inside is conv2d. "
    "Rows in brackets: no operator ran, but Python and binding code, the framework's own code, or nothing at all."
)
_GAP_NOTE = (
    "Layers with all they do (bias and ReLU included), per recorded step. native: profkit's fastest kernels for the "
    "same layers, measured alone on this machine (*: a reference kernel, not tuned). bound: the roofline of this "
    "machine by the direct method, which Winograd kernels may beat. saves: what the step would lose with these "
    "kernels. auxiliary, dispatch: parts of now, spent on copying, padding and allocating, and in the framework's own "
    "code of these layers. idle threads: what the kernels would lose if all threads had been busy, where helper "
    "threads can be seen. The classes are those of docs/baseline.md."
)


def build_report(summary: Summary, picture: Picture | Paragraph | None = None) -> Document:
    study = summary.study
    blocks: list[Block] = [Heading(1, study.title)]
    blocks += [Paragraph(study.about)] if study.about else []
    blocks.append(Paragraph(_origin(summary)))
    if not summary.frameworks():
        return Document(*blocks, Paragraph("Nothing was measured yet."), *_missing(summary))
    blocks += [Heading(2, "In short"), Bullets(short_answers(summary))]
    blocks += [picture] if picture is not None else []
    if summary.study.sweep.axes:
        blocks += sweep_blocks(summary)
    else:
        blocks += [Heading(2, "Time, memory and precision"), summary_grid(summary), Paragraph(_summary_note(summary))]
    blocks += _operators(summary) + _optimise(summary)
    if not summary.study.sweep.axes:
        blocks += _variants(summary) + _published(summary)
    return Document(*blocks, *_trust(summary), *_missing(summary))


def build_reports(summaries: Sequence[Summary], pictures: Sequence[Picture | Paragraph] = ()) -> Document:
    """Of all sweeps: one after another, below the pictures, where there are several."""
    if len(summaries) == 1:
        return build_report(summaries[0], pictures[0] if pictures else None)
    study = summaries[0].study
    blocks: list[Document] = [Heading(1, study.title)]
    blocks += [Paragraph(study.about)] if study.about else []
    blocks += pictures
    parts = (build_report(replace(each, study=_titled(each))) for each in summaries)
    return Document(*blocks, *(block for part in parts for block in part.blocks))


def _titled(summary: Summary) -> Study:
    return replace(summary.study, title=f"{summary.study.title}: {summary.study.sweep.name}", about="")


def build_summary(summary: Summary) -> Document:
    """What fits a terminal: what was measured, what was not and why, and what follows."""
    facts = [f"images: {summary.data}"] if summary.data else []
    title = ": ".join(filter(None, (summary.study.title, summary.study.sweep.name)))
    table = times_grid(summary) if summary.study.sweep.axes else summary_grid(summary, is_short=True)
    blocks: list[Block] = [replace(table, title=title, facts=facts)]
    if absent := missing_grid(summary):
        rows = [line.texts for line in absent.lines]
        items = [
            Item(name, status, f"{reason} ({cells} {'cell' if cells == '1' else 'cells'})")
            for name, status, cells, _, reason in rows
        ]
        blocks.append(Items(items))
    return Document(*blocks, Bullets(short_answers(summary)))


def _origin(summary: Summary) -> str:
    """What was run, in two sentences."""
    study = summary.study
    step = " or ".join(sorted({"training" if each.setting.training else "inference" for each in study.variants}))
    times = plural(study.repetitions, "repetition")
    form = f"{study.name}{' (quick form)' if study.is_quick else ''}"
    text = f"{form}: {len(study.variants)} variants, {study.steps} recorded steps of {step} per cell, {times}."
    return f"{text} Images: {summary.data}." if summary.data else text


def _summary_note(summary: Summary) -> str:
    focus = summary.focus
    return (
        "step: median with nothing recorded. against base: over that of the base in the same repetition (range of the "
        f"repetitions). {focus} time, bytes: of all its operators in a recorded step; MB are 10^6 bytes. share: of all "
        f"operators' time. peak: most bytes live at once. rate: flops by formula over time. {_learning_note(summary)}"
    ).rstrip()


def _learning_note(summary: Summary) -> str:
    learned = [each.learned for each in summary.variants if each.learned and each.learned.precision_percent is not None]
    if not learned:
        trained = [each.learned.steps for each in summary.variants if each.learned and each.learned.steps]
        return f"precision@1: a dash, after at most {max(trained)} steps it would say nothing." if trained else ""
    steps = sorted({each.steps for each in learned})
    amount = str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    text = f"precision@1: after {amount} training steps in {learned[0].framework}, on {learned[0].tested} test images"
    if len(steps) > 1:
        text += "; where the limit of time ended training earlier, precision does not compare"
    return (
        f"{text}: {learned[0].data}. Each variant was trained once; ± is the 95 % interval by the number of test "
        "images alone, another seed may change more."
    )


def _operators(summary: Summary) -> list[Block]:
    found = sentences.dominance_sentences(summary)
    if not found:
        return []
    title = f"Which operator takes the time of {summary.study.base!r}"
    return [Heading(2, title), Bullets(found), kinds_grid(summary), Paragraph(_KINDS_NOTE)]


def _optimise(summary: Summary) -> list[Block]:
    every = opportunities(summary)
    if not every:
        return []
    first = first_opportunities(summary)
    named = [each for each in every if each is first.get(each.framework) or each == first.get(each.framework)]
    named += [each for each in every if each not in named and each.is_worth_it]
    order = list(first)
    named.sort(key=lambda each: (order.index(each.framework), -(each.saving_ns or 0.0)))
    return [
        Heading(2, "Which operator to optimise, and by how much"),
        Bullets([f"{each.framework}: {optimise_sentence(each)}." for each in named]),
        opportunity_grid(summary),
        Paragraph(_GAP_NOTE),
    ]


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
        Paragraph(f"Source: {published.source}. {' '.join(published.notes)}".strip()),
        Paragraph(f"Time against the base: {summary.focus}, then the whole step."),
        time_ratio_grid(summary),
        Paragraph(f"Bytes of {summary.focus} against the base, its share of all operators, precision@1."),
        byte_ratio_grid(summary),
    ]
    if found := sentences.comparison_sentences(summary):
        blocks.append(Bullets(found))
    if found := sentences.open_sentences(summary):
        blocks += [Heading(2, "What the published figures leave open"), Bullets(found)]
    return blocks


def _trust(summary: Summary) -> list[Block]:
    return [
        Heading(2, "How far to trust this"),
        Bullets(sentences.machine_sentences(summary)),
        frameworks_grid(summary),
        Paragraph(
            "recorded / unrecorded: what recording costs a step, by pass; unrecorded / unrecorded, of steps before and "
            "after: the noise floor; smaller costs cannot be measured."
        ),
    ]


def _missing(summary: Summary) -> list[Block]:
    blocks: list[Block] = []
    if grid := missing_grid(summary):
        blocks += [Heading(2, "Cells without numbers"), grid]
    if left := sum(row.status == NOT_RUN for row in summary.rows):
        blocks.append(Paragraph(f"{left} pairs of variant and framework were not run yet: the same command continues."))
    return blocks
