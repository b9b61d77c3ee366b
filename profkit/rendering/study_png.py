"""A study's chart as a PNG file, drawn by matplotlib, which is optional."""

from __future__ import annotations

import importlib.util
import io
import math

from profkit.rendering.study_chart import Chart, Panel, tick_text, wrapped_name

INSTALL = 'the PNG needs matplotlib; type: pip install "profkit[plots]"'


def can_draw_png() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def render_png(chart: Chart) -> bytes:
    """The whole chart."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A Figure of its own: pyplot would keep state and look for a screen.
    figure = Figure(figsize=(11, 1.6 + 2.5 * len(chart.panels)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(len(chart.panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(every, chart.panels):
        _draw(axes, panel)
    every[-1].set_xticks(range(len(chart.variants)), ["\n".join(wrapped_name(name)) for name in chart.variants])
    named = {label: handle for axes in every for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(
        named.values(), named.keys(), loc="outside lower center", ncols=min(6, max(1, len(named))), fontsize=9
    )
    figure.suptitle("\n".join([chart.title, *chart.notes]), fontsize=10)
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()


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
