"""Plots of sweeps: summaries in, a panel per network out, a quantity over an axis, published points beside ours."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.rendering.studies.chart import COLOURS, PUBLISHED_COLOUR, SVG_SETTINGS
from profkit.rendering.studies.sweeps import epoch_of
from profkit.rendering.terminal import visible
from profkit.studies.analyses.points import Point, groups_of, number_of, points_of
from profkit.studies.analyses.speedups import THREADS, speed_ups
from profkit.studies.declaration import (
    EPOCH_S,
    FRAMEWORK,
    IMAGES_PER_S,
    PEAK_MB,
    SPEED_UP,
    STEP_MS,
    TOTAL_S,
    PlotStyle,
    PublishedValue,
)
from profkit.studies.summary import Summary
from profkit.studies.sweeps import point_name, value_word

KEY_COLOUR = "#444444"
"""Of a key that stands for a line or a marker in every colour."""
STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "v", "P", "X", "*", "h")
TITLES = {
    STEP_MS: "time of a step, ms",
    EPOCH_S: "time of an epoch (steps x step), s",
    TOTAL_S: "time of all epochs (steps x step), s",
    IMAGES_PER_S: "images per second",
    PEAK_MB: "most bytes live at once, MB",
    SPEED_UP: "speed-up against one thread",
}


@dataclass(frozen=True)
class AxisLine:
    """Values over one axis."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    style: str = "-"
    marker: str = "o"
    is_published: bool = False


@dataclass(frozen=True)
class AxisKey:
    """A line of the legend."""

    name: str
    colour: str = KEY_COLOUR
    style: str = ""
    marker: str = ""
    is_published: bool = False


@dataclass(frozen=True)
class AxisPanel:
    title: str
    x_title: str
    y_title: str
    lines: Sequence[AxisLine]
    keys: Sequence[AxisKey]
    is_log: bool


@dataclass(frozen=True)
class AxisChart:
    """A panel per network, side by side."""

    title: str
    notes: Sequence[str]
    panels: Sequence[AxisPanel]


def axis_chart(summaries: Sequence[Summary]) -> AxisChart | None:
    """Of the sweeps that have axes; None where none has."""
    panels = [_panel(summary) for summary in summaries if summary.study.sweep.plot is not None]
    if not panels:
        return None
    study = summaries[0].study
    notes = [f"published: {study.published.source}"] if study.published else []
    return AxisChart(visible(study.title), list(map(visible, notes)), panels)


def _panel(summary: Summary) -> AxisPanel:
    sweep = summary.study.sweep
    style = sweep.plot
    assert style is not None
    points = [
        point
        for point in points_of(summary)
        if number_of(point.at.get(style.x)) is not None and _value(summary, point, style.y) is not None
    ]
    lines = []
    for group in groups_of(points, lambda point: (point.framework, point.without(style.x))):
        ordered = sorted(group, key=lambda point: float(point.at[style.x]))
        place = {FRAMEWORK: group[0].framework, **group[0].without(style.x)}
        x = [float(point.at[style.x]) for point in ordered]
        y = [value for point in ordered if (value := _value(summary, point, style.y)) is not None]
        lines.append(AxisLine(_name(place, summary), x, y, *_drawn(place, summary, style)))
    order = [runner.key for runner in summary.study.runners]
    lines.sort(key=lambda line: order.index(line.name.partition(", ")[0]))
    lines += _published_lines(summary, style)
    network = type(sweep.variants[0].network).name
    title, keys = visible(sweep.name or network), _keys(summary, style, lines)
    return AxisPanel(title, style.x.replace("_", " "), TITLES[style.y], lines, keys, style.is_log)


def _keys(summary: Summary, style: PlotStyle, lines: Sequence[AxisLine]) -> list[AxisKey]:
    """What colours, lines and markers stand for; each line by its name where these do not tell all of them apart."""
    axes = {FRAMEWORK: [runner.key for runner in summary.study.runners], **summary.study.sweep.axes}
    varying = {name for name, values in axes.items() if name != style.x and len(values) > 1}
    kept = [line for line in lines if line.is_published or varying - {style.colour, style.line, style.marker}]
    keys = [AxisKey(line.name, line.colour, line.style, line.marker, line.is_published) for line in kept]
    if len(kept) == len(lines) and not all(line.is_published for line in lines):
        return keys
    signs = []
    for axis, field, drawn in (
        (style.colour, "colour", COLOURS),
        (style.line, "style", STYLES),
        (style.marker, "marker", MARKERS),
    ):
        for place, value in enumerate(axes.get(axis, ()) if axis in varying or axis == FRAMEWORK else ()):
            name = str(value) if axis == FRAMEWORK else point_name({axis: value})
            key = AxisKey(name, style="-") if field == "colour" else AxisKey(name)
            signs.append(replace(key, **{field: drawn[place % len(drawn)]}))  # type: ignore[arg-type]
    return [*signs, *keys]


def _value(summary: Summary, point: Point, quantity: str) -> float | None:
    if quantity == STEP_MS:
        return point.step_ns / 1e6
    if quantity == PEAK_MB:
        return point.peak_bytes / 1e6 if point.peak_bytes is not None else None
    if quantity == SPEED_UP:
        found = (
            each
            for each in speed_ups(points_of(summary))
            if (each.framework, each.at, each.threads)
            == (point.framework, point.without(THREADS), point.at.get(THREADS))
        )
        return next((each.ratio.median for each in found), None)
    sweep = summary.study.sweep
    variant = next(variant for variant in sweep.variants if variant.changes == point.at)
    found_epoch = epoch_of(sweep.epoch, variant, point.step_ns) if sweep.epoch else None
    if found_epoch is None:
        return None
    return {EPOCH_S: found_epoch.epoch_s, TOTAL_S: found_epoch.seconds}.get(quantity, found_epoch.images_per_s)


def _name(place: Mapping[str, Any], summary: Summary) -> str:
    """Only what differs between the lines."""
    axes = summary.study.sweep.axes
    varying = {name: value for name, value in place.items() if name == FRAMEWORK or len(axes.get(name, ())) > 1}
    framework = varying.pop(FRAMEWORK)
    return f"{framework}, {point_name(varying)}" if varying else str(framework)


def _drawn(place: Mapping[str, Any], summary: Summary, style: PlotStyle) -> tuple[str, str, str]:
    """Colour, line and marker, each by the place of a value on its axis."""
    axes = {**summary.study.sweep.axes, FRAMEWORK: [runner.key for runner in summary.study.runners]}

    def chosen(axis: str, signs: Sequence[str]) -> str:
        values = list(axes.get(axis, ()))
        return signs[values.index(place[axis]) % len(signs)] if axis and place.get(axis) in values else signs[0]

    return chosen(style.colour, COLOURS), chosen(style.line, STYLES), chosen(style.marker, MARKERS)


def _published_lines(summary: Summary, style: PlotStyle) -> list[AxisLine]:
    """Points of published tables with the same quantity over the same axis."""
    published, sweep = summary.study.published, summary.study.sweep
    values = [
        value
        for value in (published.values if published else ())
        if value.sweep == sweep.name and value.quantity == style.y and number_of(value.point.get(style.x)) is not None
    ]
    groups: dict[str, list[PublishedValue]] = {}
    for value in values:
        rest = {name: each for name, each in value.point.items() if name != style.x}
        groups.setdefault(f"{value.table} {point_name(rest)}", []).append(value)
    lines = []
    for group in groups.values():
        ordered = sorted(group, key=lambda value: float(value.point[style.x]))
        place = {name: value_word(value) for name, value in group[0].point.items() if name != style.x}
        text = ", ".join(f"{name} {value}" if name != FRAMEWORK else value for name, value in place.items())
        x, y = [float(value.point[style.x]) for value in ordered], [value.value for value in ordered]
        framework = str(group[0].point.get(FRAMEWORK, ""))
        framework = published.places.get(framework, framework) if published else framework
        colour, drawn, marker = _drawn({**group[0].point, FRAMEWORK: framework}, summary, style)
        known = framework in [runner.key for runner in summary.study.runners]
        colour = colour if known else PUBLISHED_COLOUR
        lines.append(AxisLine(f"published: {text}", x, y, colour, drawn, marker, True))
    return lines


def render_axis_chart(chart: AxisChart, file_format: str) -> bytes:
    from matplotlib import rc_context

    with rc_context(SVG_SETTINGS):
        data = io.BytesIO()
        about = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        _figure(chart).savefig(data, format=file_format, metadata=about if file_format == "svg" else None)
        return data.getvalue()


def _figure(chart: AxisChart) -> Any:
    from matplotlib.figure import Figure

    named = {key.name: key for panel in chart.panels for key in panel.keys}
    columns = 4
    height = 5.0 + 0.22 * -(-len(named) // columns)
    figure = Figure(figsize=(max(8.0, 5.5 * len(chart.panels)), height), dpi=110, layout="constrained")
    every = figure.subplots(1, len(chart.panels), squeeze=False)[0]
    for axes, panel in zip(every, chart.panels):
        _draw(axes, panel)
    figure.legend(
        [_handle(key) for key in named.values()], list(named), loc="outside lower center", ncols=columns, fontsize=8
    )
    figure.suptitle("\n".join([chart.title, *chart.notes]), fontsize=10)
    return figure


def _handle(key: AxisKey) -> Any:
    from matplotlib.lines import Line2D

    face = "white" if key.is_published else key.colour
    style = "" if key.is_published else key.style
    return Line2D([], [], color=key.colour, linestyle=style, marker=key.marker, markerfacecolor=face, markersize=6)


def _draw(axes: Any, panel: AxisPanel) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    if not any(line.x for line in panel.lines):
        axes.text(0.5, 0.5, "nothing was measured", color="#666666", ha="center", transform=axes.transAxes)
        return
    for line in panel.lines:
        axes.plot(
            line.x,
            line.y,
            color=line.colour,
            linestyle="" if line.is_published else line.style,
            linewidth=1.2,
            marker=line.marker,
            markersize=7 if line.is_published else 5,
            markerfacecolor="white" if line.is_published else line.colour,
        )
    values = sorted({x for line in panel.lines for x in line.x})
    if panel.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        if values[0] > 0:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0.0)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xlabel(panel.x_title, fontsize=9)
    axes.set_ylabel(panel.y_title, fontsize=9)
    axes.grid(color="#e3e3e3")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
