"""A study's chart as SVG text that stands alone: no script, no style sheet, no font from elsewhere."""

from __future__ import annotations

import math
from html import escape

from profkit.rendering.study_chart import Chart, Panel, Series, tick_text, wrapped_name

WIDTH, LEFT, RIGHT = 960, 64, 24
PANEL_HEIGHT, PANEL_TOP, LABEL_LINE = 190, 34, 14
_GRID, _INK = "#e3e3e3", "#222222"


def render_svg(chart: Chart) -> str:
    """The whole chart."""
    labels = [wrapped_name(name) for name in chart.variants]
    foot = LABEL_LINE * max((len(lines) for lines in labels), default=0) + 10
    legend, legend_height = _legend(chart)
    top = 30 + legend_height
    height = top + len(chart.panels) * (PANEL_HEIGHT + PANEL_TOP) + foot + 18 * len(chart.notes)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" fill="{_INK}" role="img">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 20, chart.title, size=15, weight="bold"),
        legend,
    ]
    for number, panel in enumerate(chart.panels):
        parts.append(_panel(panel, len(chart.variants), top + number * (PANEL_HEIGHT + PANEL_TOP)))
    bottom = top + len(chart.panels) * (PANEL_HEIGHT + PANEL_TOP)
    for place, lines in enumerate(labels):
        for row, line in enumerate(lines):
            parts.append(_text(_x(place, len(labels)), bottom + LABEL_LINE * (row + 1), line, anchor="middle"))
    for row, note in enumerate(chart.notes):
        parts.append(_text(LEFT, bottom + foot + 18 * row + 8, note, size=11, colour="#666666"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, variants: int, top: float) -> str:
    base = top + PANEL_TOP + PANEL_HEIGHT - 10
    parts = [_text(LEFT, top + 18, panel.title, weight="bold")]
    limits = panel.limits()
    if limits is None:
        return "\n".join([*parts, _text(LEFT, top + 50, "nothing was measured", colour="#666666")])
    for tick in panel.ticks():
        y = _y(tick, panel, limits, base)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(_text(LEFT - 8, y + 4, tick_text(tick), anchor="end"))
    parts += [_series(series, panel, limits, variants, base) for series in panel.series]
    return "\n".join(parts)


def _series(series: Series, panel: Panel, limits: tuple[float, float], variants: int, base: float) -> str:
    runs: list[list[tuple[float, float]]] = [[]]
    marks = []
    for place, value in enumerate(series.values):
        if value is None or (panel.is_log and value <= 0):
            runs.append([])  # a gap, no line across it
            continue
        x, y = _x(place, variants), _y(value, panel, limits, base)
        runs[-1].append((x, y))
        marks.append(_mark(series, x, y, f"{series.name}: {value:.4g}"))
    dash = ' stroke-dasharray="5 4"' if series.is_reference else ""
    style = f'fill="none" stroke="{series.colour}" stroke-width="1.3" opacity="0.7"{dash}'
    lines = [" ".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs if len(run) > 1]
    return "\n".join([*(f'<polyline points="{points}" {style}/>' for points in lines), *marks])


def _mark(series: Series, x: float, y: float, tip: str) -> str:
    """A dot, or a hollow diamond for a reference; a browser shows the tip under the pointer."""
    title = f"<title>{escape(tip)}</title>"
    if series.is_reference:
        corners = f"{x:.1f},{y - 5:.1f} {x + 5:.1f},{y:.1f} {x:.1f},{y + 5:.1f} {x - 5:.1f},{y:.1f}"
        return (
            f'<polygon points="{corners}" fill="#ffffff" stroke="{series.colour}" stroke-width="1.5">{title}</polygon>'
        )
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{series.colour}">{title}</circle>'


def _legend(chart: Chart) -> tuple[str, int]:
    """Every series once, in rows; and the height that this takes."""
    every = {series.name: series for panel in chart.panels for series in panel.series}
    parts, x, y = [], float(LEFT), 44.0
    for series in every.values():
        width = 24 + 7 * len(series.name)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = float(LEFT), y + 18
        parts += [_mark(series, x + 5, y - 4, series.name), _text(x + 15, y, series.name)]
        x += width
    return "\n".join(parts), int(y - 44 + 22)


def _x(place: int, variants: int) -> float:
    return LEFT + (place + 0.5) * (WIDTH - LEFT - RIGHT) / max(1, variants)


def _y(value: float, panel: Panel, limits: tuple[float, float], base: float) -> float:
    low, high = limits
    if panel.is_log:
        part = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    else:
        part = (value - low) / (high - low)
    return base - part * (PANEL_HEIGHT - 20)


def _text(
    x: float, y: float, text: str, size: int = 12, anchor: str = "start", weight: str = "normal", colour: str = _INK
) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
