"""Figures that others published: the [published] table of a study in, numbers of points and ratios out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from profkit.attribution.kinds import KINDS
from profkit.errors import unknown
from profkit.ops.networks import NETWORKS
from profkit.studies.declaration import (
    FRAMEWORK,
    QUANTITIES,
    Figures,
    Published,
    PublishedRatio,
    PublishedValue,
    Setting,
    Sweep,
)
from profkit.studies.sections import LARGEST, TomlSection, quoted_value
from profkit.studies.sweeps import checked_value

_PUBLISHED = ("source", "notes", "recording_ratio", "figures", "shares_percent", "tables", "ratios", "places")
_TABLE = ("sweep", "quantity", "fixed", "columns", "rows")
_RATIO = ("where", "sweep", "quantity", "point", "against", "value", "low", "high")


def read_published(top: TomlSection, sweeps: Sequence[Sweep], frameworks: Sequence[str]) -> Published | None:
    if not top.has("published"):
        return None
    section = top.section("published")
    section.allow(_PUBLISHED)
    figures = section.section("figures")
    figures.allow([variant.name for sweep in sweeps for variant in sweep.variants], "variant")
    shares = section.section("shares_percent")
    shares.allow(KINDS, "kind of operator")
    tables = section.section("tables")
    return Published(
        source=section.text("source"),
        notes=section.words("notes") if section.has("notes") else (),
        figures={name: _figures(figures.section(name)) for name in figures.values},
        shares={name: shares.number(name) for name in shares.values},
        recording_ratio=section.number("recording_ratio") if section.has("recording_ratio") else None,
        values=[value for name in tables.values for value in _table(name, tables.section(name), sweeps)],
        ratios=[_ratio(part, sweeps) for part in _parts(section, "ratios")],
        places=_places(section.section("places"), frameworks),
    )


def _places(section: TomlSection, frameworks: Sequence[str]) -> dict[str, str]:
    places = {name: section.text(name) for name in section.values}
    for name, word in places.items():
        if word not in frameworks:
            raise section.error(name, unknown("framework of the study", word, frameworks))
    return places


def _figures(section: TomlSection) -> Figures:
    section.allow(item.name for item in fields(Figures))
    return Figures(**{name: section.number(name) for name in section.values})


def _table(name: str, section: TomlSection, sweeps: Sequence[Sweep]) -> list[PublishedValue]:
    """A table as it is printed: rows of values, under columns that are values of one axis."""
    section.allow(_TABLE)
    sweep, quantity = _sweep(section, sweeps), _quantity(section)
    fixed = _point(section, "fixed", sweep)
    columns = section.section("columns")
    columns.allow(_known(sweep), "axis")
    if len(columns.values) != 1:
        raise section.error("columns", "expected one axis with its values")
    ((axis, heads),) = columns.values.items()
    if not isinstance(heads, list) or not heads:
        raise section.error("columns", f"expected the values of {axis} in [ ]")
    for head in heads:
        _check(columns, sweep, {axis: head})
    found = []
    for row in _parts(section, "rows"):
        cells, margins = row.items("values", unique=False), row.values.get("margins")
        row.allow((*_known(sweep), "values", "margins"), "axis")
        numbers = [cells, *([row.items("margins", unique=False)] if margins is not None else [])]
        for name_, each in zip(("values", "margins"), numbers):
            if len(each) != len(heads):
                raise row.error(name_, f"has {len(each)} numbers for {len(heads)} columns")
            if wrong := [cell for cell in each if not _is_number(cell)]:
                raise row.error(name_, f"expected numbers from 0 on, got {quoted_value(wrong[0])}")
        own = {key: value for key, value in row.values.items() if key not in ("values", "margins")}
        _check(row, sweep, own)
        for place, head in enumerate(heads):
            margin = float(margins[place]) if margins is not None else 0.0
            point = {**fixed, **own, axis: head}
            found.append(PublishedValue(name, sweep.name, quantity, point, float(cells[place]), margin))
    return found


def _ratio(section: TomlSection, sweeps: Sequence[Sweep]) -> PublishedRatio:
    section.allow(_RATIO)
    sweep = _sweep(section, sweeps)
    given = {name for name in ("value", "low", "high") if section.has(name)}
    if given not in ({"value"}, {"low", "high"}):
        raise section.error("value", "give value, or low and high")
    for name in ("point", "against"):
        if not section.section(name).values:
            raise section.error(name, "is missing or empty; expected values of axes")
    low, high = (section.number("value" if section.has("value") else name) for name in ("low", "high"))
    if not 0 < low <= high:
        raise section.error("value" if section.has("value") else "low", f"expected 0 < low <= high, got {low:g}")
    return PublishedRatio(
        section.text("where"),
        sweep.name,
        _quantity(section),
        _point(section, "point", sweep),
        _point(section, "against", sweep),
        low,
        high,
    )


def _parts(section: TomlSection, name: str) -> list[TomlSection]:
    """The tables in a list."""
    if not section.has(name):
        return []
    found = []
    for value in section.items(name, unique=False):
        if not isinstance(value, dict):
            raise section.error(name, f"expected tables, got {quoted_value(value)}")
        found.append(TomlSection(section.source, value, (*section.path, name)))
    return found


def _sweep(section: TomlSection, sweeps: Sequence[Sweep]) -> Sweep:
    """That which is named; a study with one sweep need not name it."""
    names = [sweep.name for sweep in sweeps]
    if names == [""]:
        if section.has("sweep"):
            raise section.error("sweep", "the study itself has no [sweeps]")
        return sweeps[0]
    name = section.text("sweep", names[0] if len(names) == 1 else None)
    if name not in names:
        raise section.error("sweep", unknown("sweep", name, names))
    return sweeps[names.index(name)]


def _quantity(section: TomlSection) -> str:
    name = section.text("quantity")
    if name not in QUANTITIES:
        raise section.error("quantity", unknown("quantity", name, QUANTITIES))
    return name


def _point(section: TomlSection, name: str, sweep: Sweep) -> Mapping[str, Any]:
    inner = section.section(name)
    inner.allow(_known(sweep), "axis")
    _check(inner, sweep, inner.values)
    return inner.values


def _check(section: TomlSection, sweep: Sweep, point: Mapping[str, Any]) -> None:
    """A value of another type would be a point that is never measured; other optimisers and devices are published."""
    network = type(sweep.variants[0].network)
    for name, value in point.items():
        if name == FRAMEWORK:
            if not isinstance(value, str):
                raise section.error(name, f"expected a text in quotes, got {quoted_value(value)}")
        elif name not in ("optimizer", "device", "dtype"):
            checked_value(section, network, name, value)


def _known(sweep: Sweep) -> list[str]:
    """Published points may be where the sweep has no axis: parameters of its network, devices."""
    network = type(sweep.variants[0].network)
    names = (item.name for item in (*fields(NETWORKS[network.name]), *fields(Setting)))
    return list(dict.fromkeys((*sweep.axes, *names, FRAMEWORK)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LARGEST
