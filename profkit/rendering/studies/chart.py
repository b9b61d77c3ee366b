"""A study's chart: a Summary in, panels over the same variants out, drawn by matplotlib, which is optional."""

from __future__ import annotations

import importlib.util
import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.rendering.terminal import visible
from profkit.studies.declaration import Figures
from profkit.studies.summary import Summary, VariantRow

INSTALL = 'charts need matplotlib; type: pip install "profkit[plots]"'
NAME_WIDTH = 13
# Text stays text, and the same chart gives the same file: no random ids, no date.
# A dollar in a name is a dollar, and begins no formula.
SVG_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "profkit", "text.parse_math": False}
# Distinguishable with every kind of colour vision, on white.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7a5c00", "#555555")
PUBLISHED_COLOUR, EXPECTED_COLOUR = "#000000", "#9a9a9a"


@dataclass(frozen=True)
class Series:
    """One value per variant; None where there is none. A reference (published, by formula) is drawn apart."""

    name: str
    values: Sequence[float | None]
    colour: str
    is_reference: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    series: Sequence[Series]
    is_log: bool = False

    @property
    def has_values(self) -> bool:
        return any(
            value is not None and (value > 0 or not self.is_log) for each in self.series for value in each.values
        )


@dataclass(frozen=True)
class Chart:
    """Panels above each other, the variants from left to right."""

    title: str
    notes: Sequence[str]
    variants: Sequence[str]
    panels: Sequence[Panel]


def study_chart(summary: Summary) -> Chart:
    """Time, memory and precision over the variants, the published figures beside ours."""
    focus, names = summary.focus, [facts.name for facts in summary.variants]
    colours = {runner.key: COLOURS[place % len(COLOURS)] for place, runner in enumerate(summary.study.runners)}
    rows = {key: [summary.row(variant, key) for variant in names] for key in summary.frameworks()}

    def ours(value: Callable[[VariantRow], float | None]) -> list[Series]:
        return [Series(key, [value(row) if row else None for row in own], colours[key]) for key, own in rows.items()]

    def published(value: Callable[[Figures], float | None], base: bool) -> list[Series]:
        figures = [facts.published for facts in summary.variants]
        whole = value(summary.base.published) if base and summary.base.published else 1.0
        values = [value(each) if each else None for each in figures]
        ratios = [number / whole if number is not None and whole else None for number in values]
        return [Series("published", ratios, PUBLISHED_COLOUR, True)] if any(ratios) else []

    flops = [facts.focus_flops / (summary.base.focus_flops or 1) for facts in summary.variants]
    panels = [
        Panel("time of a step, ms", ours(lambda row: row.step_ns.median / 1e6 if row.step_ns else None), True),
        Panel(
            f"{focus} time against the base",
            [
                *ours(lambda row: row.focus_ratio.median if row.focus_ratio else None),
                Series("flops", flops, EXPECTED_COLOUR, True),
                *published(lambda figures: figures.focus_ms, True),
            ],
            True,
        ),
        Panel(
            f"bytes requested by {focus} in a step, MB",
            [
                *ours(lambda row: row.focus_bytes / 1e6 if row.focus_bytes is not None else None),
                *published(lambda figures: figures.focus_bytes / 1e6 if figures.focus_bytes else None, False),
            ],
        ),
    ]
    learned = [facts.learned for facts in summary.variants]
    if any(each is not None and each.precision_percent is not None for each in learned):
        framework = next(each.framework for each in learned if each is not None)
        precision = [each.precision_percent if each else None for each in learned]
        series = Series(f"precision here ({framework})", precision, colours.get(framework, COLOURS[-1]))
        title = f"precision@1, %{' (here on synthetic data)' if summary.is_synthetic else ''}"
        panels.append(Panel(title, [series, *published(lambda figures: figures.precision_percent, False)]))
    notes: list[str] = [f"images: {summary.data}"] if summary.data else []
    notes += [f"published: {summary.study.published.source}"] if summary.study.published else []
    return Chart(visible(summary.study.title), list(map(visible, notes)), list(map(visible, names)), panels)


def can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def render_chart(chart: Chart, file_format: str) -> bytes:
    from matplotlib import rc_context

    with rc_context(SVG_SETTINGS):
        data = io.BytesIO()
        about = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        _figure(chart).savefig(data, format=file_format, metadata=about if file_format == "svg" else None)
        return data.getvalue()


def _figure(chart: Chart) -> Any:
    from matplotlib.figure import Figure

    # A Figure of its own: pyplot would keep state and look for a screen.
    figure = Figure(figsize=(11, 1.6 + 2.5 * len(chart.panels)), dpi=110, layout="constrained")
    every = figure.subplots(len(chart.panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(every, chart.panels):
        _draw(axes, panel)
    names = [textwrap.fill(name, NAME_WIDTH, break_long_words=False) for name in chart.variants]
    every[-1].set_xticks(range(len(names)), names)
    named = {label: handle for axes in every for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=min(6, max(1, len(named))), fontsize=9
    )
    figure.suptitle("\n".join([chart.title, *chart.notes]), fontsize=10)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    if not panel.has_values:
        axes.text(0.0, 0.5, "nothing was measured", color="#666666", transform=axes.transAxes)
        axes.set_yticks([])
        return
    for series in panel.series:
        values = [math.nan if value is None else value for value in series.values]  # a gap, no line across it
        axes.plot(
            range(len(values)),
            values,
            color=series.colour,
            linewidth=1,
            linestyle="--" if series.is_reference else "-",
            marker="D" if series.is_reference else "o",
            markerfacecolor="white" if series.is_reference else series.colour,
            markersize=5,
            label=series.name,
        )
    if panel.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    else:
        axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", color="#e3e3e3")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
