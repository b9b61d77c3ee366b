"""A study's chart as a PNG or SVG file, drawn by matplotlib, which is optional."""

from __future__ import annotations

import importlib.util
import io
import math
from typing import Any

from profkit.rendering.studies.chart import Chart, Panel, tick_text, wrapped_name

INSTALL = 'charts need matplotlib; type: pip install "profkit[plots]"'
# Text stays text, and the same chart gives the same file: no random ids, no date.
_SVG = {"svg.fonttype": "none", "svg.hashsalt": "profkit"}


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def render_chart(chart: Chart, file_format: str) -> bytes:
    """The whole chart, as `png` or `svg`."""
    from matplotlib import rc_context

    with rc_context(_SVG):
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
    every[-1].set_xticks(range(len(chart.variants)), ["\n".join(wrapped_name(name)) for name in chart.variants])
    named = {label: handle for axes in every for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=min(6, max(1, len(named))), fontsize=9
    )
    figure.suptitle("\n".join([chart.title, *chart.notes]), fontsize=10)
    return figure


def _draw(axes: object, panel: Panel) -> None:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    assert isinstance(axes, Axes)
    axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    limits = panel.limits()
    if limits is None:
        axes.text(0.0, 0.5, "nothing was measured", color="#666666", transform=axes.transAxes)
        axes.set_yticks([])
        return
    if panel.is_log:
        axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(FixedLocator(panel.ticks()))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axes.grid(axis="y", color="#e3e3e3")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
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
